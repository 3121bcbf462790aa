package engine

import "sync/atomic"

// Stats counts what an engine has done.
type Stats struct {
	planned, claimed, completed, retried, rescued, fenced, misplaced, caughtUp atomic.Int64

	audited   atomic.Int64
	auditedAt atomic.Int64 // Unix milliseconds of the database; 0: never
}

// Counts is a snapshot of Stats and of the current state.
type Counts struct {
	Planned, Claimed, Completed, Retried, Rescued, Fenced, Misplaced, CaughtUp int64

	Audited   int64   // occurrences that the audit judged
	AuditedAt float64 // Unix time of the last sample; 0: none yet

	Wheel int // runs in the wheel
	Free  int // slots
}

// Counts returns what the engine has done so far.
func (e *Engine) Counts() Counts {
	s := &e.stats
	return Counts{
		Planned: s.planned.Load(), Claimed: s.claimed.Load(),
		Completed: s.completed.Load(), Retried: s.retried.Load(),
		Rescued: s.rescued.Load(), Fenced: s.fenced.Load(),
		Misplaced: s.misplaced.Load(), CaughtUp: s.caughtUp.Load(),
		Audited:   s.audited.Load(),
		AuditedAt: float64(s.auditedAt.Load()) / 1000,
		Wheel:     e.wheel.Len(), Free: e.slots.left(),
	}
}
