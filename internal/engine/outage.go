package engine

import (
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// An outage is reported when nothing more was caught up for outagePause, but not later than outageLimit after it was
// noticed.
var outagePause, outageLimit = 5 * time.Second, time.Minute

// outage adds up what this node catches up, in several transactions, until it is reported.
type outage struct {
	mu           sync.Mutex
	sum          job.Outage
	first, noted time.Duration // clock.Elapsed of the first and the last part of sum
}

// noteOutage counts occurrences that were missed, because no node served their partition.
func (e *Engine) noteOutage(part job.Outage) {
	if part.Empty() {
		return
	}
	e.stats.caughtUp.Add(part.Runs)
	e.outage.mu.Lock()
	defer e.outage.mu.Unlock()
	e.outage.noted = clock.Elapsed()
	if e.outage.sum.Empty() {
		e.outage.first = e.outage.noted
	}
	e.outage.sum.Add(part)
}

// reportOutage logs an outage in one line, if nothing more of it was noted for a while, or if that goes on for long.
func (e *Engine) reportOutage(quiet, limit time.Duration) {
	e.outage.mu.Lock()
	defer e.outage.mu.Unlock()
	o := &e.outage.sum
	now := clock.Elapsed()
	if o.Empty() || now-e.outage.noted < quiet && now-e.outage.first < limit {
		return
	}
	e.Log.Warn("no node served some partitions: missed runs caught up or skipped", "caught_up", o.Runs,
		"skipped", o.Skipped, "due_from", o.From, "due_to", o.To)
	*o = job.Outage{}
}
