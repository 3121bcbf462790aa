package engine

import "sync/atomic"

// Stats counts what an engine has done.
type Stats struct {
	planned, claimed, completed, succeeded, retried, rescued, fenced, mended atomic.Int64
}

// Counts is a snapshot of Stats, and what the wheel holds.
type Counts struct {
	Planned, Claimed, Completed, Succeeded, Retried, Rescued, Fenced, Mended int64
	Wheel                                                                    int
	Free                                                                     int // slots
}

// Counts tells what the engine has done so far.
func (e *Engine) Counts() Counts {
	s := &e.stats
	return Counts{
		Planned: s.planned.Load(), Claimed: s.claimed.Load(), Completed: s.completed.Load(), Succeeded: s.succeeded.Load(),
		Retried: s.retried.Load(), Rescued: s.rescued.Load(), Fenced: s.fenced.Load(), Mended: s.mended.Load(),
		Wheel: e.wheel.size(), Free: e.slots.left(),
	}
}
