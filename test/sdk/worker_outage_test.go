package sdk_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/sdk/go/worker"
)

// proxy starts a server in front of a node, which may pass requests on to it.
func (n *node) proxy(serve func(w http.ResponseWriter, r *http.Request, pass http.Handler)) string {
	n.t.Helper()
	at, err := url.Parse(n.url)
	require.NoError(n.t, err)
	pass := httputil.NewSingleHostReverseProxy(at)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, pass) }))
	n.t.Cleanup(web.Close)
	return web.URL
}

// The database is down for longer than the session's ttl: nodes answer, and cannot renew. The worker keeps its runs,
// and no other worker gets them.
func TestAWorkerSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 3*time.Second)
	var down atomic.Bool
	at := n.proxy(func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if down.Load() {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"unavailable","status":503,"title":"the database does not answer"}`))
			return
		}
		pass.ServeHTTP(w, r)
	})
	w := n.worker(at, worker.Slots(2)) // one runs, and one polls
	release := make(chan struct{})
	var begun atomic.Int32
	w.Handle("x", func(ctx context.Context, _ *worker.Run) error {
		begun.Add(1)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	n.job("x", "")
	n.start(w)
	id := n.trigger("x", "{}")
	n.await(id, "running")
	down.Store(true)
	expired := func(ago time.Duration) bool {
		var yes bool
		require.NoError(t, n.pool.QueryRow(t.Context(), `SELECT bool_and(expires_at < now() - $1::interval) FROM session
			WHERE expires_at > '-infinity' AND queue_id IS NOT NULL`, ago).Scan(&yes))
		return yes
	}
	require.Eventually(t, func() bool { return expired(3 * time.Second) }, patience, 10*time.Millisecond)
	node := uuid.New()
	_, err := n.store.Register(t.Context(), node, "node", time.Hour) // the first renewal after the outage
	require.NoError(t, err)
	_, found, err := n.store.RescueWorkers(t.Context(), 100)
	require.NoError(t, err)
	require.Zero(t, found)
	down.Store(false)
	require.Eventually(t, func() bool { return !expired(0) }, patience, 10*time.Millisecond)
	close(release)
	n.await(id, "succeeded")
	require.Equal(t, 1, n.run(id).Attempt)
	require.Equal(t, int32(1), begun.Load())
}

// holding is a proxy in front of a node. It holds the first request of one kind until the worker gives it up, and aborts
// those of another kind meanwhile. The channels are closed when the request arrives, and when the worker gives it up.
func (n *node) holding(held, aborted string) (url string, arrived, over <-chan struct{}) {
	n.t.Helper()
	begun, ended := make(chan struct{}), make(chan struct{})
	var first sync.Once
	url = n.proxy(func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		isFirst := false
		if strings.HasSuffix(r.URL.Path, held) {
			first.Do(func() { isFirst = true })
		}
		switch {
		case isFirst:
			_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the worker gives up
			close(begun)
			<-r.Context().Done()
			close(ended)
		case isOpen(begun) || !isOpen(ended) || !strings.HasSuffix(r.URL.Path, aborted):
			pass.ServeHTTP(w, r)
			return
		}
		panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler breaks off
	})
	return url, begun, ended
}

func isOpen(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

// A worker that loses its session does not wait for its long poll, which no one answers, before it opens another one.
func TestALostSessionEndsTheLongPoll(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 2*time.Second)
	n.job("x", "")
	at, arrived, over := n.holding(":claim", ":heartbeat")
	w := n.worker(at)
	w.Handle("x", func(context.Context, *worker.Run) error { return nil })
	n.start(w)
	<-arrived
	select {
	case <-over:
	case <-time.After(35 * time.Second): // a claim that is not cancelled takes 40 s
		t.Fatal("the worker waits for its long poll")
	}
	n.await(n.trigger("x", "{}"), "succeeded")
}

// A report that no one answers does not keep heartbeats waiting for longer than the session lives: it is sent again.
func TestAReportThatHangsIsSentAgain(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 3*time.Second)
	n.job("x", "")
	at, arrived, over := n.holding(":complete", "")
	w := n.worker(at)
	w.Handle("x", func(context.Context, *worker.Run) error { return nil })
	n.start(w)
	id := n.trigger("x", "{}")
	<-arrived
	select {
	case <-over:
	case <-time.After(19 * time.Second): // it took 20 s
		t.Fatal("the worker waits for its report")
	}
	n.await(id, "succeeded")
	require.Equal(t, 1, n.run(id).Attempt)
}
