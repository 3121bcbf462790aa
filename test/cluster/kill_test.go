package cluster_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKill9: nodes die at random while runs are due; none is lost.
func TestKill9(t *testing.T) {
	t.Parallel()
	f := form{faults: 20, seconds: 15, jobs: 50}.long()
	c := newCluster(t, setup{nodes: 3})
	c.create(f.jobs, f.duration())
	every(f.duration(), f.faults, func(int) { c.kill(syscall.SIGKILL) })
	c.settle(3 * time.Minute)
	r := c.check()
	t.Logf("lateness %s", c.lateness())
	t.Log(r)
	c.clean(r)
}

// TestRestarts: nodes are asked to stop while runs are due; none is lost, and
// none is delivered twice.
func TestRestarts(t *testing.T) {
	t.Parallel()
	f := form{faults: 10, seconds: 15, jobs: 50}.long()
	c := newCluster(t, setup{nodes: 3})
	c.create(f.jobs, f.duration())
	every(f.duration(), f.faults, func(int) { c.kill(syscall.SIGTERM) })
	c.settle(time.Minute)
	r := c.check()
	t.Logf("lateness %s", c.lateness())
	t.Log(r)
	c.clean(r)
	require.Zero(t, r.duplicates)
}
