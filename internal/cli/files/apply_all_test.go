package files_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

// front is a proxy in front of an API. It counts requests and can reject them.
type front struct {
	*httptest.Server
	requests atomic.Int64
	// refuse answers the nth request and returns true, or returns false to pass it on.
	refuse atomic.Pointer[refusal]
}

type refusal func(n int64, w http.ResponseWriter) bool

func newFront(t *testing.T, a *clitest.API) *front {
	t.Helper()
	to, err := url.Parse(a.URL)
	require.NoError(t, err)
	f := &front{}
	pass := httputil.NewSingleHostReverseProxy(to)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := f.requests.Add(1)
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
	a := clitest.New(t, cli.New)
	f := newFront(t, a)
	through := &clitest.API{T: t, NewRoot: cli.New, URL: f.URL, Key: a.Key}
	s := through.Belfry(manyJobs(2500, "1h"), "apply", "-f", "-")
	require.NoError(t, s.Failure)
	require.Contains(t, s.Out, "2500 created, 0 changed, 0 unchanged, 0 refused")
	require.True(t, strings.HasPrefix(s.Out, "created   job-0\ncreated   job-1\n"), "in the order of the file")
	require.EqualValues(t, 6, f.requests.Load(), "a comparison and a bulk for each thousand")
	s = through.Belfry(manyJobs(2500, "2h"), "apply", "-f", "-")
	require.NoError(t, s.Failure)
	require.Contains(t, s.Out, "0 created, 2500 changed, 0 unchanged, 0 refused")
	require.EqualValues(t, 12, f.requests.Load(), "changes too")
	s = through.Belfry(manyJobs(2500, "2h"), "apply", "-f", "-")
	require.NoError(t, s.Failure)
	require.Contains(t, s.Out, "2500 unchanged")
	require.EqualValues(t, 15, f.requests.Load(), "only comparisons")

	// Some are new, changed, unchanged or invalid.
	text := manyJobs(30, "2h") + `- {name: changed, schedule: 61 * * * *, target: {kind: noop}}
- {name: new, schedule: every 1h, target: {kind: noop}}
`
	text = strings.ReplaceAll(text, "job-7, schedule: every 2h", "job-7, schedule: every 3h")
	s = through.Belfry(text, "apply", "-f", "-")
	require.ErrorContains(t, s.Failure, "1 of 32 jobs were refused")
	require.Contains(t, s.Out, "1 created, 1 changed, 29 unchanged, 1 refused")
	require.Contains(t, s.Out, "changed   job-7\n")
	require.Contains(t, a.Good("job", "get", "job-7"), "every 3h")
}

// A job that was changed after the comparison is not overwritten, unless it already is as the file says.
func TestApplyKeepsWhatOthersChange(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	require.NoError(t, a.Belfry(manyJobs(3, "1h"), "apply", "-f", "-").Failure)
	f := newFront(t, a)
	f.refuse.Store(new(refusal(func(n int64, _ http.ResponseWriter) bool {
		if n == 2 { // the bulk
			other := strings.Replace(manyJobs(2, "2h"), "2h", "5h", 1)
			assert.NoError(t, a.Belfry(other, "apply", "-f", "-").Failure)
		}
		return false
	})))
	through := &clitest.API{T: t, NewRoot: cli.New, URL: f.URL, Key: a.Key}
	s := through.Belfry(manyJobs(3, "2h"), "apply", "-f", "-")
	require.ErrorContains(t, s.Failure, "1 of 3 jobs were refused")
	require.Contains(t, s.Err, "job-0: standard input line 1")
	require.Contains(t, s.Err, "changed since it was read")
	require.Contains(t, s.Out, "unchanged job-1\nchanged   job-2")
	require.Contains(t, a.Good("job", "get", "job-0"), "every 5h")
}

// What a set of files owns is refused without --set, also if the comparison has no space for labels.
func TestApplySeesOwnersOfLargeJobs(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	large := func(fill string) string {
		text := ""
		for i := range 1000 {
			text += fmt.Sprintf("- {name: job-%d, schedule: every 1h, target: {kind: noop}, payload: %s}\n",
				i, strings.Repeat(fill, 10_000))
		}
		return text
	}
	require.NoError(t, a.Belfry(large("a"), "apply", "-f", "-", "--set", "billing").Failure)
	s := a.Belfry(large("b"), "apply", "-f", "-")
	require.ErrorContains(t, s.Failure, "1000 of 1000 jobs were refused")
	require.Contains(t, a.Good("job", "get", "job-999"), "belfry.set=billing")
}

func TestApplyStopsWhereItIsHopeless(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	for about, c := range map[string]struct {
		jobs    int
		key     string
		refuse  refusal
		want    string
		most    int64
		printed string
	}{
		"a bad key":           {jobs: 5, key: "bfk_wrong", want: "rejects the key from --key", most: 5},
		"a bad key, and many": {jobs: 3000, key: "bfk_wrong", want: "rejects the key from --key", most: 1},
		"a proxy without its server": {
			jobs: 3000, key: a.Key, want: "502 Bad Gateway", most: 1,
			refuse: func(_ int64, w http.ResponseWriter) bool {
				w.WriteHeader(http.StatusBadGateway)
				return true
			},
		},
		// net/http repeats a request that has an idempotency key for each idle connection that is closed.
		"a server that goes away": {
			jobs: 3000, key: a.Key, want: "stopped after 1000 of 3000 jobs", most: 5, printed: "1000 created",
			refuse: func(n int64, w http.ResponseWriter) bool {
				if n <= 2 { // the first comparison and bulk
					return false
				}
				connection, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					_ = connection.Close()
				}
				return true
			},
		},
	} {
		f := newFront(t, a) // one each: abandoned requests still arrive
		f.refuse.Store(&c.refuse)
		through := &clitest.API{T: t, NewRoot: cli.New, URL: f.URL, Key: c.key}
		s := through.Belfry(manyJobs(c.jobs, "1h"), "apply", "-f", "-")
		t.Logf("%s: %v", about, s.Failure)
		require.ErrorContains(t, s.Failure, c.want, about)
		require.LessOrEqual(t, f.requests.Load(), c.most, about)
		require.Contains(t, s.Out, c.printed, about)
		require.NotContains(t, s.Err, c.want, "%s: one error is enough", about) // progress, if it takes long
		require.NotContains(t, s.Failure.Error(), c.key)
	}
	gone := &clitest.API{T: t, NewRoot: cli.New, URL: "http://127.0.0.1:1", Key: "bfk_x"}
	for _, n := range []int{3, 3000} {
		s := gone.Belfry(manyJobs(n, "1h"), "apply", "-f", "-")
		require.ErrorContains(t, s.Failure, "cannot reach http://127.0.0.1:1")
		require.Empty(t, s.Out+s.Err)
	}
	s := gone.Belfry("0 * * * * /bin/true\n", "import", "crontab", "-", "--url", "http://x.example.com/")
	require.ErrorContains(t, s.Failure, "cannot reach http://127.0.0.1:1")
}

// The exit codes are those of diff(1): 0 equal, 1 a difference, 2 an error.
func TestExitCodesOfDiff(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	code := func(a *clitest.API, stdin string, args ...string) int {
		s := a.Belfry(stdin, append([]string{"diff"}, args...)...)
		if s.Failure == nil {
			return 0
		}
		t.Log(s.Failure)
		return cli.ExitCode(s.Failure)
	}
	text := manyJobs(12, "1h")
	require.Equal(t, 0, code(a, text, "-f", "-"))
	require.Equal(t, 1, code(a, text, "-f", "-", "--exit-code"))
	require.NoError(t, a.Belfry(text, "apply", "-f", "-").Failure)
	require.Equal(t, 0, code(a, text, "-f", "-", "--exit-code"))
	gone := &clitest.API{T: t, NewRoot: cli.New, URL: "http://127.0.0.1:1", Key: "bfk_x"}
	locked := &clitest.API{T: t, NewRoot: cli.New, URL: a.URL, Key: "bfk_wrong"}
	for _, args := range [][]string{{"-f", "-", "--exit-code"}, {"-f", "-"}} {
		require.Equal(t, 2, code(gone, text, args...), "no server")
		require.Equal(t, 2, code(locked, text, args...), "a wrong key")
		require.Equal(t, 2, code(a, "name: [", args...), "no YAML")
		require.Equal(t, 2, code(a, "{name: x, shedule: y}", args...), "no job")
	}
	require.Equal(t, 2, code(a, "", "-f", "/nonexistent"))
	require.Equal(t, 2, code(a, ""))
}
