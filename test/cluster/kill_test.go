package cluster_test

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock/clocktest"
)

// TestKill9: nodes are killed at random while runs are due. No run is lost.
func TestKill9(t *testing.T) {
	t.Parallel()
	f := form{faults: 20, seconds: 15, jobs: 50}.long() // `make cluster FAULT=Kill9 KILLS=200` sets other numbers
	c := newCluster(t, setup{nodes: 3})                 // processes, on the database server that all tests share
	c.create(f.jobs, f.duration())                      // 50 jobs × 15 seconds: 750 runs must happen
	c.killAtRandom(f)                                   // SIGKILL, and another node starts
	c.finish(3 * time.Minute)                           // until each run has ended, however late
	r := c.check()                                      // the oracle's runs = the ledger = what the sink received
	t.Logf("lateness %s", c.lateness())
	t.Log(c.exposure())
	t.Log(r)
	c.clean(r)

	// The product's own audit must find what is taken away by hand.
	c.stop()
	tag, err := c.pool.Exec(t.Context(), `
DELETE FROM run_history WHERE (tableoid, ctid) IN (SELECT tableoid, ctid FROM run_history ORDER BY random() LIMIT 20)`)
	require.NoError(t, err)
	require.EqualValues(t, 20, tag.RowsAffected())
	a := c.audit()
	t.Logf("20 rows deleted by hand: %s", &a)
	require.EqualValues(t, 20, a.Missing)
	require.EqualValues(t, 20, a.Wrong()+a.Duplicates)
}

// TestRestarts: nodes are stopped while runs are due. No run is lost, and none is delivered twice.
func TestRestarts(t *testing.T) {
	t.Parallel()
	f := form{faults: 10, seconds: 15, jobs: 50}.long()
	c := newCluster(t, setup{nodes: 3, env: steady})
	c.create(f.jobs, f.duration(), unhurried)
	every(f.duration(), f.faults, func(int) { c.kill(syscall.SIGTERM) })
	c.finish(patience)
	r := c.check()
	t.Logf("stops %s, lateness %s", c.stops, c.lateness())
	t.Log(r)
	c.clean(r)
	require.Zero(t, r.duplicates)
	require.LessOrEqual(t, c.stops.percentile(100), clocktest.Allow(drain))
}

// pause suspends one node after the other for a while.
func (c *cluster) pause(f form, length func() time.Duration) {
	var resumed sync.WaitGroup
	every(f.duration(), f.faults, func(i int) {
		n := c.nodes[i%len(c.nodes)]
		require.NoError(c.t, n.cmd.Process.Signal(syscall.SIGSTOP))
		resumed.Go(func() {
			<-time.After(length())
			if err := n.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				c.t.Error(err)
			}
		})
	})
	resumed.Wait()
}

// TestPause: nodes are suspended, for a moment or until others have taken over their work, and then continue. What they
// write then changes nothing.
func TestPause(t *testing.T) {
	t.Parallel()
	f := form{faults: 6, seconds: 18, jobs: 50}.long()
	c := newCluster(t, setup{nodes: 3})
	c.create(f.jobs, f.duration()+2*ttl, spread)
	c.pause(f, func() time.Duration { return time.Duration(rand.Int64N(int64(2 * ttl))) })
	c.finish(patience)
	r := c.check()
	t.Logf("pauses=%d, lateness %s", f.faults, c.lateness())
	t.Log(r)
	c.clean(r)
}
