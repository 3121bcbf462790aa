package cluster_test

import (
	"math/rand/v2"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestLimitOfWorkers: a queue that is always full, and workers with more slots than it has permits, on three nodes.
// Nodes and workers are killed. There are never more runs in progress than permits, and no run is lost.
func TestLimitOfWorkers(t *testing.T) {
	t.Parallel()
	const places = 50
	f := form{faults: 5, seconds: 14, jobs: 60}.long()
	c := newCluster(t, setup{
		nodes: 3, api: true, env: []string{"BELFRY_WORKER_TTL=15s"}, // those that live keep their runs on a busy machine
		slow: func(r *rand.Rand) time.Duration { return time.Duration(300+r.IntN(600)) * time.Millisecond },
	})
	limit := c.limited("work", job.QueueLimits{MaxRunning: places})
	c.create(f.jobs, f.duration(), limit, pulled, func(_ int, in *job.NewJob) {
		in.Definition.Timeout = job.Duration(time.Minute)
	})
	w := c.workers()
	var processes []*exec.Cmd
	for range 6 {
		processes = append(processes, w.start("", 30))
	}
	var dead sync.WaitGroup
	every(f.duration(), f.faults, func(int) {
		c.kill(syscall.SIGKILL)
		for i := range processes { // those of the killed node would wait for it indefinitely
			gone := processes[i]
			require.NoError(t, gone.Process.Kill())
			dead.Go(func() { _ = gone.Wait() })
			processes[i] = w.start("", 30)
		}
	})
	c.finish(patience)
	for _, p := range processes {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
	dead.Wait()
	all := most(c.sink.all(), func(receipt) string { return "all" })["all"]
	full := most(c.started(), func(receipt) string { return "all" })["all"]
	r := c.check()
	t.Logf("nodes killed=%d, workers killed=%d, at work together=%d of %d, started together=%d", c.kills,
		c.kills*len(processes), all, places, full)
	t.Log(r)
	require.LessOrEqual(t, all, places)
	require.GreaterOrEqual(t, full, places*8/10, "it was not full, so this says nothing")
	var permits int
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT count(*) FROM permit`).Scan(&permits))
	require.Zero(t, permits)
	c.clean(r)
}
