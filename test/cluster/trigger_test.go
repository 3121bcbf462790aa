package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestMeasureTrigger measures how long after a trigger its run starts, on a cluster that has nothing else to do: three
// nodes, triggers at random moments, each sent to any of the nodes. All times are those of the database, and the last
// one is when the run reached its target. It is for make measure-trigger.
func TestMeasureTrigger(t *testing.T) {
	if os.Getenv("BELFRY_TRIGGER") == "" {
		t.Skip("make measure-trigger")
	}
	triggers := number("TRIGGERS", 200)
	c := newCluster(t, setup{nodes: 3, named: true, api: true, slow: immediately})
	quiet := func(_ int, in *job.NewJob) {
		in.Definition.Schedule.StartAt = c.now().Add(24 * time.Hour)
		in.Definition.Schedule.EndAt = in.Definition.Schedule.StartAt.Add(time.Hour)
	}
	const jobs = 100
	c.create(jobs, time.Hour, quiet)
	c.create(jobs, time.Hour, quiet, pulled, func(i int, in *job.NewJob) {
		in.Definition.Name = fmt.Sprintf("pulled-%d", i)
	})
	c.balanced()
	w := c.workers()
	for range c.nodes {
		worker := w.start("", 2, "NOOP=1")
		t.Cleanup(func() { _ = worker.Process.Kill(); _ = worker.Wait() })
	}
	u := c.caller(time.Minute)
	idle := c.idleRate()
	for _, kind := range []struct {
		name string
		jobs []job.Job
	}{{"http", c.jobs[:jobs]}, {"worker", c.jobs[jobs:]}} {
		for range 10 { // connections and plans
			c.trigger(u, kind.jobs)
		}
		var late, returned figures
		for range triggers {
			<-time.After(time.Duration(rand.Int64N(int64(500 * time.Millisecond))))
			started, answered := c.trigger(u, kind.jobs)
			late, returned = append(late, started), append(returned, answered)
		}
		t.Logf("%s: started after the trigger's transaction %s; after its answer %s", kind.name, late.precise(),
			returned.precise())
		if kind.name == "http" {
			t.Logf("http: received by the target %s", c.lateness().precise())
		}
		if os.Getenv("BELFRY_TRIGGER") == "strict" {
			require.LessOrEqual(t, late.percentile(99), 50*time.Millisecond, kind.name)
		}
	}
	t.Logf("idle: %.1f transactions/s of each node before the triggers, %.1f after", idle, c.idleRate())
}

// precise prints what is often less than a millisecond.
func (f figures) precise() string {
	at := func(p int) time.Duration { return f.percentile(p).Round(100 * time.Microsecond) }
	return fmt.Sprintf("n=%d p50=%s p90=%s p99=%s max=%s", len(f), at(50), at(90), at(99), at(100))
}

// trigger triggers one of the jobs and waits until the run has ended. It returns how long after the transaction of the
// trigger, and after its answer, the run started.
func (c *cluster) trigger(u *caller, jobs []job.Job) (sinceTransaction, sinceAnswer time.Duration) {
	c.t.Helper()
	j := jobs[rand.IntN(len(jobs))]
	got, text := u.call(c.t.Context(), "POST", "/jobs/"+job.FormatJobID(j.ID)+":trigger", "")
	answered := c.now()
	require.Equal(c.t, acknowledged, got, string(text))
	var due, started time.Time
	require.Eventually(c.t, func() bool {
		var left int
		require.NoError(c.t, c.pool.QueryRow(c.t.Context(), `SELECT count(*) FROM run`).Scan(&left))
		return left == 0
	}, time.Minute, 5*time.Millisecond)
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(),
		`SELECT due_at, started_at FROM run_history WHERE job_id = $1 ORDER BY due_at DESC LIMIT 1`, j.ID).
		Scan(&due, &started))
	return started.Sub(due), started.Sub(answered)
}

// idleRate is the transactions per second of each node while nothing happens.
func (c *cluster) idleRate() float64 {
	c.t.Helper()
	<-time.After(2 * time.Second) // PostgreSQL counts late
	before := c.usage()
	<-time.After(10 * time.Second)
	after := c.usage()
	return float64(after.transactions-before.transactions) / (after.at - before.at).Seconds() / float64(len(c.nodes))
}
