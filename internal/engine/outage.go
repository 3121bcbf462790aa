package engine

import (
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// outagePause is how long nothing more was caught up when an outage is reported.
var outagePause = 5 * time.Second

// outage adds up what this node catches up, in several transactions, until it is reported.
type outage struct {
	mu    sync.Mutex
	sum   job.Outage
	noted time.Duration // clock.Elapsed
}

// noteOutage counts occurrences that were missed, because no node served their partition.
func (e *Engine) noteOutage(part job.Outage) {
	if part.Empty() {
		return
	}
	e.stats.caughtUp.Add(part.Runs)
	e.outage.mu.Lock()
	defer e.outage.mu.Unlock()
	e.outage.sum.Add(part)
	e.outage.noted = clock.Elapsed()
}

// reportOutage logs an outage in one line, if nothing more of it was noted for a while.
func (e *Engine) reportOutage(quiet time.Duration) {
	e.outage.mu.Lock()
	defer e.outage.mu.Unlock()
	o := &e.outage.sum
	if o.Empty() || clock.Elapsed()-e.outage.noted < quiet {
		return
	}
	e.Log.Warn("no node served some partitions: missed runs caught up or skipped", "caught_up", o.Runs,
		"skipped", o.Skipped, "due_from", o.From, "due_to", o.To)
	*o = job.Outage{}
}
