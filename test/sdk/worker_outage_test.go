package sdk_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/sdk/go/worker"
)

// The database is down for longer than the session's ttl: nodes answer, and cannot renew. The worker keeps its runs,
// and no other worker gets them.
func TestAWorkerSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 3*time.Second)
	at, err := url.Parse(n.url)
	require.NoError(t, err)
	var down atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(at)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"unavailable","status":503,"title":"the database does not answer"}`))
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	w := n.worker(web.URL, worker.Slots(2)) // one runs, and one polls
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
	_, err = n.store.Register(t.Context(), node, "node", time.Hour) // the first renewal after the outage
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
