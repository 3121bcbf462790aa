package engine

import "sync/atomic"

// Stats counts what an engine has done.
type Stats struct {
	planned, claimed, completed, succeeded, retried, rescued, fenced atomic.Int64
	broken                                                           atomic.Int64 // now, not in all
}

// Counts is a snapshot of Stats, and what the wheel holds.
type Counts struct {
	Planned, Claimed, Completed, Succeeded, Retried, Rescued, Fenced int64
	Broken                                                           int64 // cursors that could not be planned when last tried
	Wheel                                                            int
	Free                                                             int // slots
}

// Counts tells what the engine has done so far.
func (e *Engine) Counts() Counts {
	s := &e.stats
	return Counts{
		Planned: s.planned.Load(), Claimed: s.claimed.Load(), Completed: s.completed.Load(), Succeeded: s.succeeded.Load(),
		Retried: s.retried.Load(), Rescued: s.rescued.Load(), Fenced: s.fenced.Load(), Broken: s.broken.Load(),
		Wheel: e.wheel.size(), Free: e.slots.left(),
	}
}

// report tells of cursors that cannot be planned: when their number changes, as
// they are met again in each round.
func (e *Engine) report(broken []error) {
	n := int64(len(broken))
	if before := e.stats.broken.Swap(n); n == before {
		return
	}
	if n == 0 {
		e.Log.Info("all cursors can be planned again")
		return
	}
	e.Log.Error("cursors cannot be planned: their jobs do not run", "cursors", n, "first", broken[0])
}
