package belfry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve starts a server with a handler, and returns a client for it.
func serve(t *testing.T, h http.HandlerFunc, opts ...Option) *Client {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	c, err := New(web.URL+"/", "bfk_test", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func equal[T comparable](t *testing.T, want, got T) {
	t.Helper()
	if want != got {
		t.Fatalf("want %v, got %v", want, got)
	}
}

func problem(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Problem{
		Status: int64(status), Code: code, Title: "Title", Detail: "detail",
		Problems: []FieldProblem{{Field: "schedule.cron", Problem: "it is wrong", Fix: "fix it"}},
	})
}

func TestSafeRequestsAreTriedAgain(t *testing.T) {
	t.Parallel()
	calls := map[string]int{}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls[r.Method]++
		switch {
		case r.Header.Get("Authorization") != "Bearer bfk_test" || r.UserAgent() != "mine":
			problem(w, http.StatusUnauthorized, "unauthenticated")
		case calls[r.Method] == 1:
			w.Header().Set("Retry-After", "0")
			problem(w, http.StatusTooManyRequests, "rate_limited")
		case calls[r.Method] == 2:
			problem(w, http.StatusServiceUnavailable, "unavailable")
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"name":"ci","namespace":"default","role":"viewer","key":"key_1"}`))
		}
	}, UserAgent("mine"))
	self, err := c.Self(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "ci", self.Name)
	equal(t, 3, calls[http.MethodGet])

	// A request that the server did not process is repeated; one that may have had an effect is not.
	_, err = c.Jobs.Pause(t.Context(), "x", "")
	equal(t, "unavailable", CodeOf(err))
	equal(t, 2, calls[http.MethodPost])
}

// A change with an idempotency key is repeated, with its whole body.
func TestIdempotentRequestsAreTriedAgain(t *testing.T) {
	t.Parallel()
	var bodies []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bodies = append(bodies, string(body)); len(bodies) == 1 {
			problem(w, http.StatusServiceUnavailable, "unavailable")
		}
	})
	err := c.Call(t.Context(),
		Request{
			Method: http.MethodPost, Path: "/jobs:bulk", Body: []byte("a\nb\n"),
			Header: map[string]string{"Idempotency-Key": "k"},
		}, nil)
	equal(t, nil, err)
	equal(t, "a\nb\n,a\nb\n", strings.Join(bodies, ","))
}

// TestRedirectsAreNotFollowed: the key is not sent to another address.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	calls := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	if _, err := c.Self(t.Context()); err == nil {
		t.Fatal("a redirect is no answer")
	}
	equal(t, 1, calls)
}

func TestTriesEnd(t *testing.T) {
	t.Parallel()
	calls, after := 0, "0"
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Retry-After", after)
		problem(w, http.StatusServiceUnavailable, "unavailable")
	}, Tries(3))
	_, err := c.Self(t.Context())
	equal(t, "unavailable", CodeOf(err))
	equal(t, 3, calls)

	// The client does not wait longer than the caller or its own limit allows.
	after, calls = "29", 0
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	_, err = c.Self(ctx)
	equal(t, "unavailable", CodeOf(err))
	after = "3600"
	_, err = c.Self(t.Context())
	equal(t, "unavailable", CodeOf(err))
	equal(t, 2, calls)
}

func TestProblems(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/keys" {
			http.Error(w, "<html>nginx</html>", http.StatusBadGateway)
			return
		}
		problem(w, http.StatusUnprocessableEntity, "invalid")
	})
	_, err := c.Jobs.Put(t.Context(), JobInput{Name: "x"})
	var p *Problem
	equal(t, true, errors.As(err, &p))
	equal(t, "invalid", p.Code)
	equal(t, "Title\n  schedule.cron: it is wrong; fix it", err.Error())
	_, err = c.Keys.List(t.Context())
	equal(t, "unknown", CodeOf(err))
	equal(t, true, strings.Contains(err.Error(), "502 Bad Gateway"))
	for _, server := range []string{"", "localhost:8420", "ftp://x", "http://"} {
		if _, err := New(server, "bfk_x"); err == nil {
			t.Errorf("%q passes for a server", server)
		}
	}
	if _, err := New("http://localhost", ""); err == nil {
		t.Error("no key passes for one")
	}
}

// A key in clear text would be known to all on the way, so the client sends none unless an option allows it.
func TestKeysStayOffTheNetwork(t *testing.T) {
	t.Parallel()
	for server, ok := range map[string]bool{
		"http://belfry.example.com": false, "http://192.0.2.1:8420": false, "http://localhost.example.com": false,
		"https://belfry.example.com": true, "http://localhost:8420": true, "http://127.0.0.2": true, "http://[::1]:8420": true,
	} {
		_, err := New(server, "bfk_x")
		equal(t, !ok, errors.Is(err, ErrInsecure))
		_, err = New(server, "bfk_x", Insecure())
		equal(t, nil, err)
	}
}

// A name may contain characters that separate parts of a path.
func TestNamesInPaths(t *testing.T) {
	t.Parallel()
	var got string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.URL.EscapedPath()
		problem(w, http.StatusNotFound, "not_found")
	})
	const name = "a/b: c:pause%"
	_, _ = c.Jobs.Get(t.Context(), name)
	equal(t, "GET /api/v1/jobs/a%2Fb%3A%20c%3Apause%25", got)
	_ = c.Jobs.Delete(t.Context(), name)
	equal(t, "DELETE /api/v1/jobs/a%2Fb%3A%20c%3Apause%25", got)
	_, _ = c.Jobs.Resume(t.Context(), name)
	equal(t, "POST /api/v1/jobs/a%2Fb%3A%20c%3Apause%25:resume", got)
	_ = c.Call(t.Context(), Request{Method: http.MethodGet, Path: "/jobs/" + PathEscape(name) + "/runs"}, nil)
	equal(t, "GET /api/v1/jobs/a%2Fb%3A%20c%3Apause%25/runs", got)
	_ = c.Call(t.Context(), Request{Method: http.MethodGet, Path: "/audit:verify"}, nil)
	equal(t, "GET /api/v1/audit:verify", got)
}

func TestPages(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		equal(t, "x", q.Get("state"))
		switch q.Get("page_token") {
		case "":
			_, _ = w.Write([]byte(`{"items":[1,2],"next_page_token":"b+"}`))
		case "b+":
			_, _ = w.Write([]byte(`{"items":[],"next_page_token":"c"}`))
		case "c":
			_, _ = w.Write([]byte(`{"items":[3]}`))
		}
	})
	var got []string
	for item, err := range c.List(t.Context(), "/things", map[string][]string{"state": {"x"}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(item))
	}
	equal(t, "1 2 3", strings.Join(got, " "))
	failing := Pages(func(token string) ([]int, string, error) {
		if token == "" {
			return []int{1}, "next", nil
		}
		return nil, "", errors.New("broken")
	})
	var seen []string
	for n, err := range failing {
		seen = append(seen, fmt.Sprint(n, err))
	}
	equal(t, "1 <nil>,0 broken", strings.Join(seen, ","))
}

// TestReadme checks that the README's program is the one that is compiled and run.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("examples/jobs/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := bytes.Cut(program, []byte("package main\n"))
	if !found || !strings.Contains(string(readme), "```go\npackage main\n"+string(program)+"```") {
		t.Error("the README does not show examples/jobs/main.go")
	}
}

// A filter sends the fields that are set, and nothing else.
func TestFilters(t *testing.T) {
	t.Parallel()
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.RequestURI())
		_, _ = w.Write([]byte(`{"items":[]}`))
	})
	from := time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("", 3600))
	for range c.Runs.List(t.Context(), RunFilter{Job: "a&b", States: []RunState{RunStateFailed, RunStateCancelled}, DueFrom: from}) {
		t.Error("an empty list has an item")
	}
	for range c.Jobs.List(t.Context(), JobFilter{Labels: map[string]string{"team": "x"}, WithRecent: true}) {
		t.Error("an empty list has an item")
	}
	_, _ = c.Jobs.Preview(t.Context(), "x", 0)
	equal(t, "/api/v1/runs?due_from=2026-01-02T02%3A04%3A05.0000006Z&job=a%26b&state=failed&state=cancelled "+
		"/api/v1/jobs?include=recent&label=team%3Dx /api/v1/jobs/x/preview", strings.Join(got, " "))
}

// A dry run changes nothing, so it is never mistaken for an operation.
func TestDryRuns(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in JobsRequest
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		if in.DryRun {
			_, _ = w.Write([]byte(`{"total":3}`))
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"id":"op_1"}`))
	})
	preview, err := c.Jobs.ResumeAll(t.Context(), JobsRequest{DryRun: true})
	equal(t, nil, err)
	equal(t, true, preview.Operation == nil && preview.Preview != nil)
	begun, err := c.Jobs.ResumeAll(t.Context(), JobsRequest{})
	equal(t, nil, err)
	equal(t, "op_1", begun.Operation.ID)
	_, err = c.DeadLetters.RedriveAll(t.Context(), OperationRequest{DryRun: true})
	equal(t, true, err != nil)
}

// A schedule may be a string or settings, and is sent as it was read.
func TestSchedules(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"0 9 * * 1-5"`, `{"cron":"30 2 * * *","timezone":"America/New_York"}`} {
		var s Schedule
		equal(t, nil, json.Unmarshal([]byte(text), &s))
		equal(t, true, s.Text != "" || s.Timezone == "America/New_York")
		again, err := json.Marshal(s)
		equal(t, nil, err)
		equal(t, text, string(again))
	}
	patch, err := json.Marshal(JobPatch{})
	equal(t, nil, err)
	equal(t, "{}", string(patch))
}

// Calls that create something have an idempotency key, so they are repeated after 503. A key of the caller replaces it.
func TestCallsThatCreateHaveAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	var keys []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys)%2 == 1 {
			problem(w, http.StatusServiceUnavailable, "unavailable")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"id":"run_1"}`))
	})
	for range 2 {
		run, err := c.Jobs.Trigger(t.Context(), "x", TriggerRequest{})
		equal(t, nil, err)
		equal(t, "run_1", run.ID)
	}
	equal(t, keys[0], keys[1])
	equal(t, true, keys[0] != "" && keys[0] != keys[2])
	_, err := c.Jobs.Trigger(t.Context(), "x", TriggerRequest{}, IdempotencyKey("mine"))
	equal(t, nil, err)
	equal(t, "mine,mine", strings.Join(keys[4:], ","))
}

// TestALostConnectionIsReplaced: a node that is gone without a word, as with its machine, keeps a connection of HTTP/2
// open. Calls use another one soon, which may lead to another node.
func TestALostConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"proto": r.Proto})
	}))
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(web.Close)
	var accepted atomic.Int64
	lost := make(chan struct{})
	front, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = front.Close() })
	go func() {
		for {
			c, err := front.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			go forward(t, c, web.Listener.Addr().String(), lost)
		}
	}()
	to := transport().(*http.Transport)
	to.TLSClientConfig = web.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	to.HTTP2.SendPingTimeout /= 100
	to.HTTP2.PingTimeout /= 100
	c, err := New("https://"+front.Addr().String(), "bfk_test", HTTPClient(&http.Client{Transport: to, Timeout: 10 * time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	call := func() error {
		var out map[string]string
		err := c.Call(t.Context(), Request{Method: http.MethodPost, Path: "/x"}, &out)
		if err == nil {
			equal(t, "HTTP/2.0", out["proto"])
		}
		return err
	}
	succeed := func() { // on a slow machine a ping may be late, and costs a connection that is not lost
		t.Helper()
		limit, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := call()
		for err != nil && limit.Err() == nil {
			err = call()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	succeed()
	close(lost)
	succeed()
	if n := accepted.Load(); n < 2 {
		t.Fatalf("%d connections, though one was lost", n)
	}
}

// forward copies between a connection and an address. If it began before lost was closed, it stops then, without
// closing them.
func forward(t *testing.T, c net.Conn, to string, lost <-chan struct{}) {
	late := false
	select {
	case <-lost:
		late = true
	default:
	}
	server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
	if err != nil {
		return
	}
	t.Cleanup(func() { _, _ = server.Close(), c.Close() })
	copyTo := func(to, from net.Conn) {
		text := make([]byte, 1<<16)
		for {
			n, err := from.Read(text)
			if err != nil {
				return
			}
			if !late {
				select {
				case <-lost:
					continue
				default:
				}
			}
			if _, err := to.Write(text[:n]); err != nil {
				return
			}
		}
	}
	go copyTo(c, server)
	copyTo(server, c)
}
