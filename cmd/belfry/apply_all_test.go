package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// front is a server before an API, which counts requests and can refuse them.
type front struct {
	*httptest.Server
	requests, bulks atomic.Int64
	// refuse answers the nth request if it returns true.
	refuse atomic.Pointer[refusal]
}

type refusal func(n int64, w http.ResponseWriter) bool

func newFront(t *testing.T, a *api) *front {
	t.Helper()
	to, err := url.Parse(a.url)
	require.NoError(t, err)
	f := &front{}
	pass := httputil.NewSingleHostReverseProxy(to)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := f.requests.Add(1)
		if strings.HasSuffix(r.URL.Path, ":bulk") {
			f.bulks.Add(1)
		}
		if refuse := f.refuse.Load(); refuse == nil || *refuse == nil || !(*refuse)(n, w) {
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func manyJobs(n int, every string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "- {name: job-%d, schedule: every %s, target: {kind: noop}}\n", i, every)
	}
	return b.String()
}

func TestApplyMany(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	f := newFront(t, a)
	through := &api{t, f.URL, a.key}
	s := through.belfry(manyJobs(2500, "1h"), "apply", "-f", "-")
	require.NoError(t, s.failure)
	require.Contains(t, s.out, "2500 created, 0 changed, 0 unchanged, 0 refused")
	require.True(t, strings.HasPrefix(s.out, "created   job-0\ncreated   job-1\n"), "in the order of the file")
	require.EqualValues(t, 3, f.requests.Load(), "a request for each thousand")

	// Some new, some changed, some as they are, some wrong.
	text := manyJobs(30, "1h") + "- {name: changed, schedule: 61 * * * *, target: {kind: noop}}\n- {name: new, schedule: every 1h, target: {kind: noop}}\n"
	text = strings.ReplaceAll(text, "job-7, schedule: every 1h", "job-7, schedule: every 2h")
	s = through.belfry(text, "apply", "-f", "-")
	require.ErrorContains(t, s.failure, "1 of 32 jobs were refused")
	require.Contains(t, s.out, "1 created, 1 changed, 29 unchanged, 1 refused")
	require.Contains(t, s.out, "changed   job-7\n")
	require.Contains(t, a.good("job", "get", "job-7"), "every 2h")
}

func TestApplyStopsWhereItIsHopeless(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for about, c := range map[string]struct {
		jobs    int
		key     string
		refuse  refusal
		want    string
		most    int64
		printed string
	}{
		"a bad key":           {jobs: 5, key: "bfk_wrong", want: "does not take the key from --key", most: 5},
		"a bad key, and many": {jobs: 3000, key: "bfk_wrong", want: "does not take the key from --key", most: 1},
		"a proxy without its server": {jobs: 3000, key: a.key, want: "502 Bad Gateway", most: 1, refuse: func(_ int64, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}},
		// Go itself sends a request with an idempotency key again for each connection that it had kept and that is closed.
		"a server that goes away": {jobs: 3000, key: a.key, want: "stopped after 1000 of 3000 jobs", most: 5, printed: "1000 created", refuse: func(n int64, w http.ResponseWriter) bool {
			if n == 1 {
				return false
			}
			connection, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = connection.Close()
			}
			return true
		}},
	} {
		f := newFront(t, a) // one each: requests that were given up still come
		f.refuse.Store(&c.refuse)
		through := &api{t, f.URL, c.key}
		s := through.belfry(manyJobs(c.jobs, "1h"), "apply", "-f", "-")
		t.Logf("%s: %v", about, s.failure)
		require.ErrorContains(t, s.failure, c.want, about)
		require.LessOrEqual(t, f.requests.Load(), c.most, about)
		require.Contains(t, s.out, c.printed, about)
		require.Empty(t, s.err, "%s: one error is enough", about)
		require.NotContains(t, s.failure.Error(), c.key)
	}
	gone := &api{t, "http://127.0.0.1:1", "bfk_x"}
	for _, n := range []int{3, 3000} {
		s := gone.belfry(manyJobs(n, "1h"), "apply", "-f", "-")
		require.ErrorContains(t, s.failure, "cannot reach http://127.0.0.1:1")
		require.Empty(t, s.out+s.err)
	}
	s := gone.belfry("0 * * * * /bin/true\n", "import", "crontab", "-", "--url", "http://x.example.com/")
	require.ErrorContains(t, s.failure, "cannot reach http://127.0.0.1:1")
}

// As diff(1): 0 the same, 1 a difference, 2 trouble.
func TestExitCodesOfDiff(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	code := func(a *api, stdin string, args ...string) int {
		s := a.belfry(stdin, append([]string{"diff"}, args...)...)
		if s.failure == nil {
			return 0
		}
		t.Log(s.failure)
		return exitCode(s.failure)
	}
	text := manyJobs(12, "1h")
	require.Equal(t, 0, code(a, text, "-f", "-"))
	require.Equal(t, 1, code(a, text, "-f", "-", "--exit-code"))
	require.NoError(t, a.belfry(text, "apply", "-f", "-").failure)
	require.Equal(t, 0, code(a, text, "-f", "-", "--exit-code"))
	for _, args := range [][]string{{"-f", "-", "--exit-code"}, {"-f", "-"}} {
		require.Equal(t, 2, code(&api{t, "http://127.0.0.1:1", "bfk_x"}, text, args...), "no server")
		require.Equal(t, 2, code(&api{t, a.url, "bfk_wrong"}, text, args...), "a wrong key")
		require.Equal(t, 2, code(a, "name: [", args...), "no YAML")
		require.Equal(t, 2, code(a, "{name: x, shedule: y}", args...), "no job")
	}
	require.Equal(t, 2, code(a, "", "-f", "/nonexistent"))
	require.Equal(t, 2, code(a, ""))
}

// A progress bar is no output; where there is no terminal it is a line now and then.
func TestProgressWithoutATerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := newProgress(io.Writer(&out), "apply", 10)
	p.set(1, 10)
	require.Empty(t, out.String(), "not at once")
	p.said -= sayEvery
	p.set(2, 10)
	p.set(3, 10)
	p.end()
	p.end()
	require.Equal(t, "apply: 2 of 10\n", out.String())
}
