package job

import (
	"time"

	"github.com/google/uuid"
)

// What the ledger tells, as the store and the API hand it to each other.

// RunStatus is the state of a run in words: of a live one, or how it ended.
type RunStatus string

// The states. Pending and due are one state in the database: what tells them
// apart is the clock.
const (
	StatusPending   RunStatus = "pending" // its time has not come
	StatusDue       RunStatus = "due"     // its time has come, and it has not started
	StatusRunning   RunStatus = "running"
	StatusWaiting   RunStatus = "waiting" // accepted by its target, which will report
	StatusSucceeded RunStatus = "succeeded"
	StatusFailed    RunStatus = "failed"
	StatusCancelled RunStatus = "cancelled"
	StatusSkipped   RunStatus = "skipped"
)

// Live says that a run in this state has not ended.
func (s RunStatus) Live() bool {
	return s == StatusPending || s == StatusDue || s == StatusRunning || s == StatusWaiting
}

// LiveStatus is the state of a live run at an instant.
func LiveStatus(state RunState, runAt, now time.Time) RunStatus {
	switch {
	case state == Running:
		return StatusRunning
	case state == Waiting:
		return StatusWaiting
	case runAt.After(now):
		return StatusPending
	default:
		return StatusDue
	}
}

// EndedStatus is the state of a run that has ended.
func EndedStatus(e Ended) RunStatus {
	return map[Ended]RunStatus{
		EndedSucceeded: StatusSucceeded, EndedFailed: StatusFailed, EndedCancelled: StatusCancelled, EndedSkipped: StatusSkipped,
	}[e]
}

// Entry is a line of the ledger: a live run, how one ended, or a range of
// occurrences that did not run. A run that was redriven has one for each time it
// ended, and one while it is live.
type Entry struct {
	Key
	Status    RunStatus
	Version   int32     // of the job, when the run was made
	RunAt     time.Time // when it may start
	StartedAt time.Time // of the last attempt; zero: never
	EndedAt   time.Time // zero: it is live
	ExpiresAt time.Time // of a waiting one: lost if it is not reported by then
	Attempt   int16
	Origin    Origin
	Code      int // of the target's protocol
	Session   uuid.UUID
	DueTo     time.Time // of a range: the last of it
	Count     int64     // of a range; 0: they were too many to count
	Reason    Reason
	Message   string
	Attempts  []AttemptEnd // those before the last
	OwnKey    string       // the idempotency key that its target got; empty: the run's id, or it is not known yet

	Handler  string // of a live run that workers pull
	Percent  *int16 // how far its worker says that it has come
	Progress string
	Result   string // that its worker reported; JSON

	DeadLetter bool // the run waits for redrive or discard

	JobName string // empty: the job is deleted
	Queue   string
	Node    string // name of the session's node; empty: it is long gone
}

// BeganAt is when the last attempt began: a run is claimed shortly before its
// time, and starts when that has come. Zero: there was none.
func (e *Entry) BeganAt() time.Time {
	if e.StartedAt.IsZero() || !e.EndedAt.IsZero() && e.RunAt.After(e.EndedAt) { // ended before its time
		return e.StartedAt
	}
	return later(e.StartedAt, e.RunAt)
}

// AttemptEnd is what an attempt came to.
type AttemptEnd struct {
	Number  int16
	EndedAt time.Time
	Outcome OutcomeKind
	Code    int
	Message string
}

// RunQuery asks for a page of the ledger.
type RunQuery struct {
	Namespace uuid.UUID
	Job       uuid.UUID // zero: of all jobs
	States    []RunStatus
	Reason    Reason
	Queue     string

	DueFrom, DueBefore     time.Time
	EndedFrom, EndedBefore time.Time

	Limit int
	After RunMark
}

// RunMark is where a page ended. The zero value is before the first one.
type RunMark struct {
	At      time.Time // in the order of the list: of the due time, or of the end
	Key     Key       // of the last run shown; zero: all before At are still to come
	EndedAt time.Time
	Width   time.Duration // how far back it was looked at once
}

// RunPage is a page of the ledger. It may be short, or empty, though there is
// more: the work for one page is bounded.
type RunPage struct {
	Entries []Entry
	Next    *RunMark // nil: there is no more
}

// RunParams is what somebody asks of a run.
type RunParams struct {
	Namespace  uuid.UUID
	Key        Key
	Actor      string
	Idempotent *IdempotentRequest // of a retry or a redrive; nil: as often as it is asked for
	Attempt    *int16             // of a retry: that of the end which is meant, if it has to be the newest; nil: whichever that is
}
