package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// unswept is two nodes that do not sweep while a test runs.
type unswept struct {
	t       *testing.T
	pool    *pgxpool.Pool
	nodes   map[string]*client // by name
	started chan time.Duration
}

func setupUnswept(t *testing.T) *unswept {
	t.Helper()
	u := &unswept{t: t, nodes: map[string]*client{}, started: make(chan time.Duration, 100)}
	var url, key string
	url, u.pool = pgtest.ServerURL(t)
	for _, name := range []string{"one", "two"} {
		s, c := u.serve(url, name)
		if key == "" {
			key = c.key
		}
		c.key = key
		u.nodes[name] = c
		t.Cleanup(func() { require.NoError(t, s.end(t)) })
	}
	u.await(2, `SELECT count(DISTINCT owner) FROM partition HAVING count(owner) = 256`)
	u.await(2, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	return u
}

func (u *unswept) serve(url, name string) (*serving, *client) {
	c := testConfig(url)
	c.Name, c.SweepPause, c.WakeBack = name, time.Hour, time.Hour // a wake-up may be late
	c.Started = func(late time.Duration) { u.started <- late }
	key := make(chan string, 1)
	c.Bootstrap = func(secret string) { key <- secret }
	s := serveNode(u.t, c)
	base := "http://" + s.log.await(u.t, "node started")["address"].(string)
	client := &client{t: u.t, base: base, http: &http.Client{}}
	select {
	case client.key = <-key:
	default: // the first node created it
	}
	return s, client
}

func (u *unswept) await(want int, query string) {
	u.t.Helper()
	require.Eventually(u.t, func() bool {
		var got int
		err := u.pool.QueryRow(u.t.Context(), query).Scan(&got)
		return err == nil && got == want
	}, time.Minute, 10*time.Millisecond, query)
}

// starts calls the API, and waits until one run has started and ended.
func (u *unswept) starts(c *client, path, body string) map[string]any {
	u.t.Helper()
	status, answer, _ := c.call("POST", "/api/v1"+path, body)
	require.Less(u.t, status, 300, "%s: %v", path, answer)
	select {
	case <-u.started:
	case <-time.After(time.Minute):
		u.t.Fatalf("%s: its run did not start", path)
	}
	u.await(0, `SELECT count(*) FROM run WHERE run_at < now() + interval '1 hour'`)
	return answer
}

// Runs that are due immediately start without a sweep, on the node that received the request if it owns the partition,
// and on the owner if not.
func TestDueRunsStartWithoutTheSweep(t *testing.T) {
	t.Parallel()
	u := setupUnswept(t)
	owners := map[string]map[string]bool{"one": {}, "two": {}} // owner by receiver
	for i := 0; len(owners["one"]) < 2 || len(owners["two"]) < 2; i++ {
		for name, c := range u.nodes {
			body := fmt.Sprintf(`{"name":"%s-%d","schedule":"every 720h","target":{"kind":"noop","config":{}}}`, name, i)
			status, answer, _ := c.call("POST", "/api/v1/jobs", body)
			require.Equal(t, http.StatusCreated, status, "%v", answer)
			id, err := job.ParseJobID(answer["id"].(string))
			require.NoError(t, err)
			var owner string
			require.NoError(t, u.pool.QueryRow(t.Context(), `
SELECT s.name FROM partition p JOIN session s ON s.id = p.owner WHERE p.id = $1`, job.PartitionOf(id)).Scan(&owner))
			if owners[name][owner] {
				continue
			}
			owners[name][owner] = true
			u.starts(c, "/jobs/"+answer["id"].(string)+":trigger", "")
		}
	}
	for name, c := range u.nodes {
		for i := range 4 { // in partitions of both nodes, most likely
			made := u.starts(c, "/jobs", fmt.Sprintf(
				`{"name":"now-%s-%d","schedule":"2026-01-01T00:00:00Z","target":{"kind":"noop","config":{}}}`, name, i))
			var key job.Key
			id, err := job.ParseJobID(made["id"].(string))
			require.NoError(t, err)
			key.Job, key.Partition = id, job.PartitionOf(id)
			require.NoError(t, u.pool.QueryRow(t.Context(),
				`SELECT due_at FROM run_history WHERE job_id = $1`, id).Scan(&key.DueAt))
			u.starts(c, "/runs/"+job.FormatRunID(key)+":retry", "")
		}
	}
}

// A flood of triggers for partitions of other nodes is one notification.
func TestWakesForOtherNodesAreCollected(t *testing.T) {
	t.Parallel()
	b := start(t)
	l, err := b.node.db.Wakes().Listen(t.Context())
	require.NoError(t, err)
	defer l.Close(t.Context())
	w := newWakes()
	w.start(b.node)
	for i := range 10_000 {
		w.written(job.Wake{Queues: map[int32]int64{int32(i): 0}})
	}
	for range 3 {
		pause, err := w.sendOnce(t.Context())
		require.NoError(t, err)
		require.Equal(t, idleWake, pause)
	}
	require.NoError(t, b.node.db.Wakes().Send(t.Context(), job.Wake{From: "the end"}))
	got, err := l.Next(t.Context())
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(got.From, "belfry"))
	require.NotEmpty(t, got.Queues)
	got, err = l.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the end", got.From)
}
