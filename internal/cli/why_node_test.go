package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// whyNode is a real node that can be stopped and started again, and a target whose answer depends on the
// path.
type whyNode struct {
	*clitest.API
	pool    *pgxpool.Pool
	config  config.Config
	target  string
	release chan struct{} // closing it answers requests to /hangs
	stop    func()
}

func newWhyNode(t *testing.T) *whyNode {
	t.Helper()
	url, pool := pgtest.ServerURL(t)
	key, err := app.CreateKey(t.Context(), app.Database{URL: pool.Config().ConnString()}, "default",
		access.KeyParams{Name: "oncall", Role: access.Admin})
	require.NoError(t, err)
	n := &whyNode{pool: pool, release: make(chan struct{}), config: config.Default()}
	n.config.DatabaseURL, n.config.Listen, n.config.Name, n.config.Drain = url, freeAddress(t), "node-1", time.Second
	n.config.Targets.Allow, n.config.Canary = "127.0.0.0/8", false
	n.config.LookAhead = 2 * time.Second // so that occurrences stay unplanned when the node stops
	n.API = &clitest.API{T: t, NewRoot: New, URL: "http://" + n.config.Listen, Key: key}
	target := httptest.NewServer(http.HandlerFunc(n.answer))
	t.Cleanup(target.Close)
	n.target = target.URL
	n.start()
	t.Cleanup(func() { n.stop() })
	return n
}

// freeAddress returns an address on which nothing listens. The port is below those that the system gives to other
// listeners and connections.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
	require.Fail(t, "no free port")
	return ""
}

func (n *whyNode) start() {
	n.T.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.T.Context()))
	ended := make(chan error, 1)
	go func() {
		log := slog.New(slog.NewTextHandler(n.T.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		ended <- app.Serve(ctx, app.Config{Config: n.config, Version: "test"}, log)
	}()
	stopped := false
	n.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-ended
		}
	}
	n.until(func() bool { return n.Belfry("", "queue", "list").Failure == nil })
}

// answer is the handler of the target.
func (n *whyNode) answer(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/flaky":
		if r.Header.Get("Belfry-Attempt") == "1" {
			http.Error(w, "the warehouse is being vacuumed", http.StatusServiceUnavailable)
		}
	case "/broken":
		http.Error(w, "cannot connect to the warehouse", http.StatusInternalServerError)
	case "/rejects":
		http.Error(w, "no such report", http.StatusBadRequest)
	case "/gone":
		w.WriteHeader(http.StatusGone)
	case "/hangs":
		select {
		case <-n.release:
		case <-r.Context().Done():
		}
	case "/accepts":
		w.WriteHeader(http.StatusAccepted)
	}
}

// now returns the time of the database's clock.
func (n *whyNode) now() (at time.Time) {
	n.T.Helper()
	require.NoError(n.T, n.pool.QueryRow(context.WithoutCancel(n.T.Context()), `SELECT now()`).Scan(&at))
	return at.UTC()
}

// once creates a job that is due once, in a moment, in Berlin.
func (n *whyNode) once(name, path string, flags ...string) {
	n.T.Helper()
	at := n.now().Add(500 * time.Millisecond).Format(time.RFC3339Nano)
	n.create(name, path, append(flags, "--at", at)...)
}

// everySecond creates a job that is due every second, in Berlin.
func (n *whyNode) everySecond(name, path string, flags ...string) {
	n.T.Helper()
	n.create(name, path, append(flags, "--every", "1s")...)
}

func (n *whyNode) create(name, path string, flags ...string) {
	n.T.Helper()
	n.Good(append([]string{"job", "create", name, "--tz", "Europe/Berlin", "--url", n.target + path}, flags...)...)
}

// until waits until a condition holds.
func (n *whyNode) until(condition func() bool) {
	n.T.Helper()
	require.Eventually(n.T, condition, time.Minute, 50*time.Millisecond)
}

// inAnHour returns a time in an hour.
func (n *whyNode) inAnHour() string {
	n.T.Helper()
	return n.now().Add(time.Hour).Truncate(time.Second).Format(time.RFC3339)
}

// file creates a job from YAML.
func (n *whyNode) file(format string, args ...any) {
	n.T.Helper()
	s := n.Belfry(fmt.Sprintf(format, args...), "apply", "-f", "-")
	require.NoError(n.T, s.Failure, s.Err)
}

// await waits until a job has a run that the filter selects, and returns the oldest.
func (n *whyNode) await(name string, filter ...string) (found runView) {
	n.T.Helper()
	require.Eventually(n.T, func() bool {
		var all []runView
		s := n.Belfry("", append([]string{"job", "runs", name, "-o", "json"}, filter...)...)
		if s.Failure != nil || json.Unmarshal([]byte(s.Out), &all) != nil || len(all) == 0 {
			return false
		}
		found = all[len(all)-1]
		return true
	}, time.Minute, 50*time.Millisecond, "%s has no run %v", name, filter)
	return found
}

// why returns the output of belfry why as it is, and without what differs in each run of the test.
func (n *whyNode) why(name string, at ...any) (printed, golden string) {
	n.T.Helper()
	args := []string{"why", name}
	for _, a := range at {
		if t, ok := a.(*time.Time); ok {
			a = t.UTC().Format(time.RFC3339Nano)
		}
		args = append(args, a.(string))
	}
	printed = n.Good(args...)
	return fmt.Sprintf("$ belfry %s\n%s", shellWords(args), printed), string(normalise([]byte(printed)))
}
