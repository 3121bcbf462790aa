package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// whyNode is a real node that can be stopped and started again, and a target that
// answers as the path says.
type whyNode struct {
	*api
	pool    *pgxpool.Pool
	config  config.Config
	target  string
	release chan struct{} // what hangs is answered when it is closed
	stop    func()
}

func newWhyNode(t *testing.T) *whyNode {
	t.Helper()
	url, pool := pgtest.ServerURL(t)
	key, err := app.CreateKey(t.Context(), pool.Config().ConnString(), "default", "oncall", access.Admin)
	require.NoError(t, err)
	port, err := freePort(t.Context())
	require.NoError(t, err)
	n := &whyNode{pool: pool, release: make(chan struct{}), config: config.Default()}
	n.config.DatabaseURL, n.config.Listen, n.config.Name, n.config.Drain = url, "127.0.0.1:"+strconv.Itoa(port), "node-1", time.Second
	n.config.Targets.Allow = "127.0.0.0/8"
	n.config.LookAhead = 2 * time.Second // so that stopping the node leaves occurrences unplanned
	n.api = &api{t, "http://" + n.config.Listen, key}
	target := httptest.NewServer(http.HandlerFunc(n.answer))
	t.Cleanup(target.Close)
	n.target = target.URL
	n.start()
	t.Cleanup(func() { n.stop() })
	return n
}

func (n *whyNode) start() {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- app.Serve(ctx, app.Config{Config: n.config, Version: "test"}, slog.New(slog.NewTextHandler(n.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	}()
	stopped := false
	n.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-ended
		}
	}
	require.Eventually(n.t, func() bool { return n.belfry("", "queue", "list").failure == nil }, time.Minute, 20*time.Millisecond)
}

// answer is the target.
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

// now is the database's clock.
func (n *whyNode) now() (at time.Time) {
	n.t.Helper()
	require.NoError(n.t, n.pool.QueryRow(context.WithoutCancel(n.t.Context()), `SELECT now()`).Scan(&at))
	return at.UTC()
}

// once makes a job that is due in a moment, in Berlin.
func (n *whyNode) once(name, path string, flags ...string) {
	n.t.Helper()
	at := n.now().Add(500 * time.Millisecond).Format(time.RFC3339Nano)
	n.good(append([]string{"job", "create", name, "--at", at, "--tz", "Europe/Berlin", "--url", n.target + path}, flags...)...)
}

// file makes a job of its JSON.
func (n *whyNode) file(format string, args ...any) {
	n.t.Helper()
	s := n.belfry(fmt.Sprintf(format, args...), "apply", "-f", "-")
	require.NoError(n.t, s.failure, s.err)
}

// await waits until a job has a run in a state, and returns the oldest.
func (n *whyNode) await(name string, filter ...string) (found runView) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		var all []runView
		s := n.belfry("", append([]string{"job", "runs", name, "-o", "json"}, filter...)...)
		if s.failure != nil || json.Unmarshal([]byte(s.out), &all) != nil || len(all) == 0 {
			return false
		}
		found = all[len(all)-1]
		return true
	}, time.Minute, 50*time.Millisecond, "%s has no run %v", name, filter)
	return found
}

// why prints a story, as it is printed and with what differs each time left out.
func (n *whyNode) why(name string, at ...any) (printed, golden string) {
	n.t.Helper()
	args := []string{"why", name}
	for _, a := range at {
		if t, ok := a.(*time.Time); ok {
			a = t.UTC().Format(time.RFC3339Nano)
		}
		args = append(args, a.(string))
	}
	printed = n.good(args...)
	return fmt.Sprintf("$ belfry %s\n%s", shellWords(args), printed), string(normalise([]byte(printed)))
}

func shellWords(args []string) string {
	var b bytes.Buffer
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(shellQuote(a))
	}
	return b.String()
}
