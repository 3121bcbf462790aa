package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/test/oracle"
)

// number is a setting of the long form.
func number(name string, short int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return short
}

// cluster is nodes, a sink, and jobs that are due each second until an end.
type cluster struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *postgres.Store
	sink  *sink
	bin   string
	log   string
	nodes []*node
	jobs  []job.Job
	end   time.Time
	kills int
}

func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := &cluster{t: t, pool: pgtest.New(t), sink: newSink(t), bin: build(t), log: filepath.Join(t.TempDir(), "nodes.log")}
	c.store = postgres.NewStore(c.pool)
	require.NoError(t, c.store.MakeHistory(t.Context(), 1))
	for range nodes {
		c.nodes = append(c.nodes, c.start())
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			_ = n.end(syscall.SIGKILL)
		}
		if t.Failed() {
			log, _ := os.ReadFile(c.log)
			t.Logf("last lines of the nodes:\n%s", log[max(0, len(log)-8000):])
		}
	})
	return c
}

func (c *cluster) start() *node {
	return startNode(c.t, c.bin, c.pool.Config().ConnString(), c.log)
}

// create makes jobs that are due each second until the end.
func (c *cluster) create(n int, d time.Duration) {
	c.t.Helper()
	var now time.Time
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), `SELECT now()`).Scan(&now))
	c.end = now.Add(d).Truncate(time.Second)
	for i := range n {
		j, err := c.store.CreateJob(c.t.Context(), postgres.CreateInput{
			Namespace: uuid.MustParse("00000000-0000-7000-8000-000000000001"), Actor: "test",
			Definition: job.Definition{
				Name: fmt.Sprintf("job-%d", i), Schedule: schedule.Spec{Every: "1s", EndAt: c.end},
				Target: job.Target{Kind: "http", Config: json.RawMessage(`{"url":"` + c.sink.url + `"}`)},
				Policy: job.Policy{
					Overlap: job.OverlapAllow, Timeout: job.Duration(10 * time.Second),
					Retry:  job.Retry{MaxAttempts: 100, Backoff: job.BackoffNone},
					Missed: job.Missed{Policy: job.MissedAll, CatchUpWindow: job.Duration(time.Hour), Max: 10_000, Pace: job.Duration(time.Millisecond)},
				},
			},
		})
		require.NoError(c.t, err)
		c.jobs = append(c.jobs, j)
	}
}

// killFor ends random nodes with a signal, and starts others in their place.
func (c *cluster) killFor(d time.Duration, kills int, signal syscall.Signal) {
	c.t.Helper()
	tick := time.NewTicker(d / time.Duration(kills))
	defer tick.Stop()
	for range kills {
		<-tick.C
		i := rand.IntN(len(c.nodes))
		err := c.nodes[i].end(signal)
		if signal == syscall.SIGTERM {
			require.NoError(c.t, err, "a node that is asked to stop ends well")
		}
		c.nodes[i] = c.start()
		c.kills++
	}
}

// settle waits until the last due time is past and nothing is left to do.
func (c *cluster) settle(within time.Duration) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		var left int
		err := c.pool.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM run) + (SELECT count(*) FROM cursor WHERE next_due_at <= $1) + (now() <= $1)::int`, c.end).Scan(&left)
		return err == nil && left == 0
	}, within, 100*time.Millisecond, "runs are left")
}

// report is what the checker found.
type report struct{ occurrences, kills, lost, early, phantom, stuck, duplicates, skipped int }

func (r report) String() string {
	return fmt.Sprintf("occurrences=%d kills=%d lost=%d early=%d phantom=%d stuck=%d duplicates=%d", r.occurrences, r.kills, r.lost, r.early, r.phantom, r.stuck, r.duplicates)
}

// check compares what must be, what the ledger says, and what reached the sink.
func (c *cluster) check() report {
	c.t.Helper()
	ctx := c.t.Context()
	r := report{kills: c.kills}
	ledger := map[string]int{}
	rows, err := c.pool.Query(ctx, `SELECT job_id, due_at, seq, ended FROM run_history`)
	require.NoError(c.t, err)
	for rows.Next() {
		var k job.Key
		var ended int16
		require.NoError(c.t, rows.Scan(&k.Job, &k.DueAt, &k.Seq, &ended))
		ledger[job.FormatRunID(k)]++
		if ended == int16(job.EndedSkipped) {
			r.skipped++
		}
	}
	require.NoError(c.t, rows.Err())
	received := map[string]int{}
	for _, x := range c.sink.all() {
		received[x.run]++
		if x.received.Before(x.due) {
			r.early++
		}
	}
	for _, j := range c.jobs {
		for _, due := range oracle.Every(j.CreatedAt.Truncate(time.Second), time.Second, j.CreatedAt, c.end.Add(-time.Nanosecond)) {
			r.occurrences++
			id := job.FormatRunID(job.Key{Job: j.ID, DueAt: due})
			if ledger[id] != 1 || received[id] == 0 {
				r.lost++
			}
			delete(ledger, id)
			r.duplicates += max(0, received[id]-1)
			delete(received, id)
		}
	}
	r.phantom = len(ledger) + len(received)
	require.NoError(c.t, c.pool.QueryRow(ctx, `SELECT count(*) FROM run WHERE state = 1`).Scan(&r.stuck))
	return r
}

// TestKill9: nodes die at random while runs are due; none is lost.
func TestKill9(t *testing.T) {
	t.Parallel()
	kills, seconds, jobs := number("KILLS", 20), number("SECONDS", 15), number("JOBS", 50)
	c := newCluster(t, 3)
	c.create(jobs, time.Duration(seconds)*time.Second)
	c.killFor(time.Duration(seconds)*time.Second, kills, syscall.SIGKILL)
	c.settle(2 * time.Minute)
	r := c.check()
	t.Log(r)
	require.Equal(t, report{occurrences: r.occurrences, kills: kills, duplicates: r.duplicates}, r)
	require.Positive(t, r.occurrences)
}

// TestRestarts: nodes are asked to stop while runs are due; none is lost, and
// none is delivered twice.
func TestRestarts(t *testing.T) {
	t.Parallel()
	restarts, seconds, jobs := number("KILLS", 10), number("SECONDS", 15), number("JOBS", 50)
	c := newCluster(t, 3)
	c.create(jobs, time.Duration(seconds)*time.Second)
	c.killFor(time.Duration(seconds)*time.Second, restarts, syscall.SIGTERM)
	c.settle(2 * time.Minute)
	r := c.check()
	t.Log(r)
	require.Equal(t, report{occurrences: r.occurrences, kills: restarts}, r)
}
