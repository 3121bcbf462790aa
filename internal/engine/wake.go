package engine

import (
	"context"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	// wakeRuns bounds the runs of one partition in a round, so that a flood in one does not delay those in others. The
	// sweep finds the rest.
	wakeRuns = 1000
	// wakeGap is the least time between two rounds. Wake-ups that come meanwhile share the next one.
	wakeGap  = 10 * time.Millisecond
	idleWake = time.Minute // without wake-ups, a round does nothing
)

// Wake looks for runs that were just written in partitions, without waiting for the next sweep. It never blocks, and
// ignores partitions of other nodes. The runs go the way of all runs that a sweep finds.
func (e *Engine) Wake(partitions []int16) {
	for _, p := range partitions {
		if e.Member.Owns(p) {
			e.woken.add(p)
		}
	}
}

// wakeOnce adds new runs of partitions that were woken to the wheel.
func (e *Engine) wakeOnce(ctx context.Context) (time.Duration, error) {
	partitions := e.woken.take()
	if len(partitions) == 0 {
		return idleWake, nil
	}
	begun, now := clock.Elapsed(), e.Bound.Now()
	runs, err := e.Planner.Sweep(ctx, job.SweepParams{
		Partitions: partitions, From: now.Add(-e.WakeBack), To: now.Add(job.WakeAhead), Limit: wakeRuns,
	})
	if err != nil {
		return 0, err // the sweep finds them
	}
	e.add(ctx, runs)
	// In the round and not after it, because a wake-up ends a pause. In a flood, half of the time is left to others.
	select {
	case <-ctx.Done():
	case <-time.After(max(wakeGap, min(clock.Elapsed()-begun, e.SweepPause))):
	}
	return idleWake, nil
}

// woken is the partitions to look at in the next round.
type woken struct {
	mu      sync.Mutex
	wake    job.Wake
	changed chan struct{} // has capacity for one signal
}

func (w *woken) add(partition int16) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake.Add(partition, 0, false)
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *woken) take() []int16 {
	w.mu.Lock()
	defer w.mu.Unlock()
	partitions := w.wake.Partitions
	w.wake = job.Wake{}
	return partitions
}
