package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// backlog creates runs of the jobs that are due now.
const backlog = `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
    handler, needs_sweep)
SELECT j.partition, n, j.version, j.id, now(), now(), 0, 0, j.priority, 1, j.admit, j.queue_id, j.handler, false
FROM job j, generate_series(1, $1::integer) n`

// usage is what processes and the database have used.
type usage struct {
	at           time.Duration
	transactions int64
	node         time.Duration // of CPU
}

func (c *cluster) usage() (u usage) {
	c.t.Helper()
	require.NoError(c.t,
		c.pool.QueryRow(c.t.Context(),
			`SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`).Scan(&u.transactions))
	for _, n := range c.nodes {
		var user, system int64
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
		require.NoError(c.t, err)
		var skip string
		fields := make([]any, 15)
		for i := range fields {
			fields[i] = &skip
		}
		fields[13], fields[14] = &user, &system
		_, err = fmt.Sscan(string(text), fields...)
		require.NoError(c.t, err)
		u.node += time.Duration(user+system) * 10 * time.Millisecond
	}
	u.at = clock.Elapsed()
	return u
}

// TestMeasureWorkers: 1,000 slots in 10 processes. First all runs are due at once, to measure the rate; then they are
// spread over time, to measure lateness. It is for make measure-workers.
func TestMeasureWorkers(t *testing.T) {
	if os.Getenv("BELFRY_WORKERS") == "" {
		t.Skip("make measure-workers")
	}
	runs, rate, seconds := number("RUNS", 200_000), number("RATE", 1000), number("SECONDS", 20)
	c := newCluster(t, setup{nodes: 1, api: true})
	c.create(rate, time.Duration(seconds+600)*time.Second, pulled, func(_ int, in *job.NewJob) {
		in.Definition.Schedule.StartAt = c.now().Add(time.Hour) // not yet
		in.Definition.Schedule.EndAt = in.Definition.Schedule.StartAt.Add(time.Duration(seconds) * time.Second)
	})
	_, err := c.pool.Exec(t.Context(), backlog, runs/rate)
	require.NoError(t, err)
	w := c.workers()
	var processes []*exec.Cmd
	for range 10 {
		processes = append(processes, w.start("", 100, "NOOP=1"))
	}
	ended := func() (n int) {
		require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT count(*) FROM run_history`).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return ended() > 1000 }, time.Minute, 10*time.Millisecond)
	from, before := ended(), c.usage()
	require.Eventually(t, func() bool { return ended() == runs/rate*rate }, 10*time.Minute, 50*time.Millisecond)
	after := c.usage()
	took := (after.at - before.at).Seconds()
	done := float64(runs/rate*rate - from)
	t.Logf("backlog: %.0f runs/s, %.0f transactions/s, %.1f runs in each, "+
		"node %.2f cores", done/took, float64(after.transactions-before.transactions)/took,
		done/float64(after.transactions-before.transactions), (after.node-before.node).Seconds()/took)
	// Runs are spread over each second.
	_, err = c.pool.Exec(t.Context(), `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
    handler, needs_sweep)
SELECT partition, 0, version, id, at, at, 0, 0, priority, 0, admit, queue_id, handler, false
FROM (
    SELECT *, now() + interval '5 s' + s * interval '1 s' + random() * interval '1 s' AS at
    FROM job, generate_series(1, $1::integer) s) x`, seconds)
	require.NoError(t, err)
	before = c.usage()
	require.Eventually(t, func() bool { return ended() == runs/rate*rate+seconds*rate }, 10*time.Minute,
		50*time.Millisecond)
	after = c.usage()
	took = (after.at - before.at).Seconds()
	var p50, p99, worst float64
	var early int
	const query = `
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY late), percentile_cont(0.99) WITHIN GROUP (ORDER BY late),
       max(late), count(*) FILTER (WHERE late < 0)
FROM (SELECT extract(epoch FROM started_at - run_at)::float8 * 1000 AS late FROM run_history WHERE seq = 0) x`
	require.NoError(t, c.pool.QueryRow(t.Context(), query).Scan(&p50, &p99, &worst, &early))
	t.Logf("traffic of %d runs/s: claimed p50 %.1f ms, p99 %.1f ms, at most %.1f ms after their time, %d early; "+
		"%.0f transactions/s, node %.2f cores", rate, p50, p99, worst, early,
		float64(after.transactions-before.transactions)/took, (after.node-before.node).Seconds()/took)
	require.Zero(t, early)
	for _, cmd := range processes {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
	}
}
