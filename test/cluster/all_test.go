package cluster_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// TestAll is the long report of `make cluster-all`. In one cluster, nodes are killed all the time and the database now
// and then, and for part of the time partitions change their owner every 200 ms.
func TestAll(t *testing.T) {
	t.Parallel()
	f := form{faults: 30, seconds: 25, jobs: 40}.long()
	crashes, handovers := number("CRASHES", 1), number("HANDOVERS", 25)
	c := newCluster(t, setup{nodes: 3, own: true})
	c.create(f.jobs, f.duration(), func(i int, in *job.NewJob) {
		if i%2 == 0 {
			spread(i, in)
		}
	})

	var faults sync.WaitGroup
	faults.Go(func() { c.killAtRandom(f) })
	var accepted []time.Time
	faults.Go(func() {
		every(f.duration()*9/10, crashes, func(int) {
			at, err := c.crash(t.Context(), rand.IntN(2) == 0, time.Duration(rand.Int64N(int64(2*ttl))))
			if err != nil {
				t.Error(err)
			}
			accepted = append(accepted, at)
		})
	})
	forced, moved := 0, 0
	faults.Go(func() {
		// Count only changes that happened: at times the database or all nodes but one are down.
		step := func(int) {
			if forced == handovers {
				return
			}
			n, err := c.handOver(t.Context())
			if err == nil && n > 0 {
				forced++
				moved += n
			}
		}
		every(f.duration()*9/10, f.seconds*9/10*5, step)
		for late := clock.Now().Add(patience); forced < handovers && clock.Now().Before(late); { // on a slow machine
			every(200*time.Millisecond, 1, step)
		}
	})
	faults.Wait()
	c.finish(5 * time.Minute)

	r := c.check()
	t.Logf("database kills=%d, firing again after %s", len(accepted), c.firing(accepted...))
	t.Logf("handovers=%d, of %d partitions", forced, moved)
	t.Logf("skipped=%d failed=%d", r.skipped, r.failed)
	t.Logf("lateness %s", c.lateness())
	t.Log(c.exposure())
	t.Log(r)
	c.clean(r)
	require.Equal(t, handovers, forced)
}
