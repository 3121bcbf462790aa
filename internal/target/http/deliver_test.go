package http_test

import (
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/http"
)

const patience = time.Minute

// setup returns a target and the address of a server with one handler.
func setup(t *testing.T, handler nethttp.HandlerFunc) (*http.Target, string) {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return newTarget(t, http.Options{}), srv.URL
}

func newTarget(t *testing.T, opts http.Options) *http.Target {
	t.Helper()
	if opts.Guard == nil {
		opts.Guard = allow(t, "127.0.0.0/8")
	}
	target := http.New(opts)
	t.Cleanup(target.Close)
	return target
}

func allow(t testing.TB, places ...string) *guard.Guard {
	t.Helper()
	g, err := guard.New(guard.Options{Allow: places})
	require.NoError(t, err)
	return g
}

func attempt(config string) job.Attempt {
	id := uuid.MustParse("01920000-0000-7000-8000-0123456789ab")
	return job.Attempt{
		Key:    job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Number: 1, Timeout: patience, Kind: "http", Config: config, Payload: `{"a": 1}`,
	}
}

func to(url string) job.Attempt { return attempt(fmt.Sprintf(`{"url": %q}`, url)) }

func TestStatuses(t *testing.T) {
	t.Parallel()
	failed := job.Outcome{Kind: job.Failed}
	later := job.Outcome{Kind: job.Failed, Retryable: true}
	want := map[int]job.Outcome{
		200: {Kind: job.Succeeded}, 201: {Kind: job.Succeeded}, 204: {Kind: job.Succeeded}, 299: {Kind: job.Succeeded},
		202: {Kind: job.Accepted},
		300: failed, 301: failed, 302: failed, 304: failed, 307: failed, 308: failed,
		400: failed, 401: failed, 403: failed, 404: failed, 409: failed, 422: failed, 499: failed,
		408: later, 425: later, 429: later, 500: later, 502: later, 503: later, 504: later, 599: later,
		410: {Kind: job.Failed, Gone: true},
		600: failed, 999: failed,
	}
	target, url := setup(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
		if status != 204 && status != 304 {
			_, _ = io.WriteString(w, "because")
		}
	})
	for status, out := range want {
		got := target.Deliver(t.Context(), to(fmt.Sprintf("%s/%d", url, status)))
		if out.Kind == job.Failed {
			require.Contains(t, got.Message, fmt.Sprint(status))
			require.Equal(t, status != 304, strings.Contains(got.Message, "because"), got.Message)
		}
		out.Status, out.Message = status, got.Message
		require.Equal(t, out, got)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const now = "Fri, 02 Jan 2026 03:04:05 GMT"
	for _, c := range []struct {
		after, date string
		status      int
		want        time.Duration
	}{
		{"", now, 503, 0},
		{"0", now, 503, 0},
		{"7", now, 503, 7 * time.Second},
		{" 7 ", now, 429, 7 * time.Second},
		{"86401", now, 503, 24 * time.Hour},
		{"99999999999999999999999", now, 503, 24 * time.Hour},
		{"-1", now, 503, 0},
		{"1.5", now, 503, 0},
		{"soon", now, 503, 0},
		{"Fri, 02 Jan 2026 03:05:35 GMT", now, 503, 90 * time.Second},
		{"Friday, 02-Jan-26 03:05:35 GMT", now, 503, 90 * time.Second},
		{"Fri Jan  2 03:05:35 2026", now, 503, 90 * time.Second},
		{"Fri, 02 Jan 2026 03:04:00 GMT", now, 503, 0}, // in the past
		{"Fri, 02 Jan 2099 03:04:00 GMT", now, 503, 24 * time.Hour},
		{"Fri, 02 Jan 2026 03:05:35 GMT", "", 503, 0}, // the node's clock is not used
		{"Fri, 02 Jan 2026 03:05:35 GMT", "once upon a time", 503, 0},
		{"7", now, 404, 0}, // never retried
	} {
		target, url := setup(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Retry-After", c.after)
			w.Header()["Date"] = []string{c.date}
			if c.date == "" {
				w.Header()["Date"] = nil // none at all
			}
			w.WriteHeader(c.status)
		})
		require.Equal(t, c.want, target.Deliver(t.Context(), to(url)).RetryAfter, "%+v", c)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(nethttp.HandlerFunc(func(nethttp.ResponseWriter, *nethttp.Request) {
		t.Error("it was followed")
	}))
	t.Cleanup(other.Close)
	target, url := setup(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Location", other.URL+"/secret-path?secret-query")
		w.WriteHeader(nethttp.StatusTemporaryRedirect)
	})
	got := target.Deliver(t.Context(), to(url))
	require.Equal(t, job.Outcome{
		Kind: job.Failed, Status: 307,
		Message: "307 Temporary Redirect: redirects are not followed; set the url to where it leads, on " + other.URL,
	}, got)
}

func TestRequest(t *testing.T) {
	t.Parallel()
	type seen struct{ method, uri, contentType, agent, own, body, length string }
	for config, want := range map[string]seen{
		`{"url": "%s/a?b=c"}`: {
			"POST", "/a?b=c", "application/json", "Belfry/1", "", `{"a": 1}`, "8",
		},
		`{"url": "%s", "method": "PUT"}`: {
			"PUT", "/", "application/json", "Belfry/1", "", `{"a": 1}`, "8",
		},
		`{"url": "%s", "method": "GET"}`: {"GET", "/", "", "Belfry/1", "", "", ""},
		`{"url": "%s", "body": {"x": [1]}}`: {
			"POST", "/", "application/json", "Belfry/1", "", `{"x": [1]}`, "10",
		},
		`{"url": "%s", "body": "\"text\""}`: {
			"POST", "/", "application/json", "Belfry/1", "", `"text"`, "6",
		},
		`{"url": "%s", "body": ""}`: {"POST", "/", "", "Belfry/1", "", "", "0"},
		`{"url": "%s", "body": null}`: {
			"POST", "/", "application/json", "Belfry/1", "", `{"a": 1}`, "8",
		},
		`{"url": "%s", "headers": {"x-own": "Ünique"}}`: {
			"POST", "/", "application/json", "Belfry/1", "Ünique", `{"a": 1}`, "8",
		},
		`{"url": "%s", "headers": {"user-agent": "Mine/2"}}`: {
			"POST", "/", "application/json", "Mine/2", "", `{"a": 1}`, "8",
		},
		`{"url": "%s", "body": "a=1&b=2", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}`: {
			"POST", "/", "application/x-www-form-urlencoded", "Belfry/1", "", "a=1&b=2", "7",
		},
	} {
		got := make(chan seen, 1)
		target, url := setup(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- seen{
				r.Method, r.RequestURI, r.Header.Get("Content-Type"), r.Header.Get("User-Agent"),
				r.Header.Get("X-Own"), string(body), r.Header.Get("Content-Length"),
			}
		})
		a := attempt(fmt.Sprintf(config, url))
		require.NoError(t, target.Check([]byte(a.Config)))
		require.Equal(t, job.Succeeded, target.Deliver(t.Context(), a).Kind, config)
		require.Equal(t, want, <-got, config)
	}
}

func TestPayloadMayBeMissing(t *testing.T) {
	t.Parallel()
	target, url := setup(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.ContentLength != 0 || r.Header.Get("Content-Type") != "" {
			w.WriteHeader(nethttp.StatusBadRequest)
		}
	})
	a := to(url)
	a.Payload = ""
	a.Timeout = 0 // the fallback applies
	require.Equal(t, job.Outcome{Kind: job.Succeeded, Status: 200}, target.Deliver(t.Context(), a))
}

func TestInvalidConfigFailsPermanently(t *testing.T) {
	t.Parallel()
	got := newTarget(t, http.Options{}).Deliver(t.Context(), attempt(`{"url": "ftp://example.com"}`))
	require.Equal(t, job.Outcome{
		Kind: job.Failed,
		Message: "the target's config is not valid, fix the job: " +
			"target.config.url: only http and https are supported; begin it with https://",
	}, got)
}
