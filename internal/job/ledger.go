package job

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// This file has the ledger as the store passes it to the API.

// RunStatus is the state of a live run, or how a run ended.
type RunStatus string

// The states. Pending, retrying and due are one state in the database: the clock and the number of attempts distinguish
// them.
const (
	StatusPending   RunStatus = "pending"  // its run time has not come
	StatusRetrying  RunStatus = "retrying" // it had an attempt, and the time of the next one has not come
	StatusDue       RunStatus = "due"      // its run time has come, and it has not started
	StatusRunning   RunStatus = "running"
	StatusAccepted  RunStatus = "accepted" // by its target, which will report
	StatusSucceeded RunStatus = "succeeded"
	StatusFailed    RunStatus = "failed"
	StatusCancelled RunStatus = "cancelled"
	StatusSkipped   RunStatus = "skipped"
)

// Live reports whether a run in this state has not ended.
func (s RunStatus) Live() bool {
	switch s {
	case StatusPending, StatusRetrying, StatusDue, StatusRunning, StatusAccepted:
		return true
	default:
		return false
	}
}

// LiveStatus is the state of a live run at an instant. A run that was deferred and never delivered is due, although it
// may start later.
func LiveStatus(state RunState, attempt int16, runAt, now time.Time, undelivered bool) RunStatus {
	switch {
	case state == Running:
		return StatusRunning
	case state == Waiting:
		return StatusAccepted
	case !runAt.After(now) || undelivered:
		return StatusDue
	case attempt > 0:
		return StatusRetrying
	default:
		return StatusPending
	}
}

// EndedStatus is the state of a run that has ended.
func EndedStatus(e Ended) RunStatus {
	return map[Ended]RunStatus{
		EndedSucceeded: StatusSucceeded, EndedFailed: StatusFailed,
		EndedCancelled: StatusCancelled, EndedSkipped: StatusSkipped,
	}[e]
}

// Entry is a line of the ledger: a live run, an ended run, or a range of occurrences that did not run. A redriven run
// has an entry for each time it ended, and one while it is live.
type Entry struct {
	Key
	Status    RunStatus
	Version   int32     // of the job, when the run was created
	RunAt     time.Time // when it may start
	StartedAt time.Time // of the last attempt; zero if there was none
	EndedAt   time.Time // zero while it is live
	ExpiresAt time.Time // of a waiting run: it is lost unless its target reports by then
	Attempt   int16
	Origin    Origin
	Code      int // of the target's protocol
	Session   uuid.UUID
	DueTo     time.Time // of a range: its last due time
	Count     int64     // of a range; 0 if there were too many to count
	Reason    Reason
	Message   string
	Attempts  []AttemptEnd // before the last one
	OwnKey    string       // the idempotency key that its target got; empty if it is the run's id or not known yet
	Trace     string       // traceparent of the request that triggered the run; empty if there is none

	Handler  string // of a live run that workers pull
	Percent  *int16 // progress that its worker reported
	Progress string
	Result   string // that its worker reported; JSON

	DeadLetter bool // the run waits for redrive or discard

	JobName string // empty if the job is deleted
	Queue   string
	Node    string // name of the session's node or worker; empty if the session is no longer stored
	Worker  bool   // the session is that of a worker
}

// BeganAt is when the last attempt began: a run is claimed shortly before its run time and starts at that time. Zero
// means that there was no attempt.
func (e *Entry) BeganAt() time.Time {
	if e.StartedAt.IsZero() || !e.EndedAt.IsZero() && e.RunAt.After(e.EndedAt) { // ended before its run time
		return e.StartedAt
	}
	return later(e.StartedAt, e.RunAt)
}

// AttemptEnd is the outcome of an attempt.
type AttemptEnd struct {
	Number    int16
	StartedAt time.Time
	EndedAt   time.Time
	Outcome   OutcomeKind
	Code      int
	Message   string
	Session   uuid.UUID
	Node      string // name of the session's node or worker
	Worker    bool   // the session is that of a worker
}

// RunQuery asks for a page of the ledger.
type RunQuery struct {
	Namespace uuid.UUID
	Job       uuid.UUID // zero means all jobs
	States    []RunStatus
	Reason    Reason
	Queue     string

	DueFrom, DueBefore     time.Time
	EndedFrom, EndedBefore time.Time

	Limit int
	After RunMark
}

// RunMark is where a page ended. The zero value is before the first page.
type RunMark struct {
	At      time.Time // due time, end or run time, whichever orders the list
	Key     Key       // of the last run shown; zero if all before At are still to come
	EndedAt time.Time
}

// RunPage is a page of the ledger. It may be short or empty even if there is more, because the work for one page is
// bounded.
type RunPage struct {
	Entries []Entry
	Next    *RunMark // nil after the last page
}

// RunParams asks for a change of a run: cancel, retry, redrive or discard.
type RunParams struct {
	Namespace  uuid.UUID
	Key        Key
	Actor      string
	Idempotent *IdempotentRequest // for a retry or a redrive; nil: each request takes effect
	Attempt    *int16             // for a retry: the last attempt that the user saw; nil means any
	Began      time.Time          // of an operation by ids: what ran again since must not be retried; zero means any
}

// MaxRecent is how many of the newest runs and skips of a job a list shows.
const MaxRecent = 12

// Recent is the newest runs and skips of a job, each once with its last state.
type Recent struct {
	Entries []Entry // by due time
	Partial bool    // there may be older ones, though there are fewer than MaxRecent
}

// NewRecent keeps the newest of entries, which are ordered by due time, sequence number and end, the newest first.
// more says that there may be others that were not read.
func NewRecent(entries []Entry, more bool) Recent {
	var out Recent
	for _, e := range entries {
		if n := len(out.Entries); n > 0 && out.Entries[n-1].sameAs(&e) {
			continue // an earlier end of the same run
		}
		if len(out.Entries) == MaxRecent {
			more = false
			break
		}
		out.Entries = append(out.Entries, e)
	}
	out.Partial = more && len(out.Entries) < MaxRecent
	slices.Reverse(out.Entries)
	return out
}

// sameAs reports whether two entries are of the same run, or of the same range.
func (e *Entry) sameAs(other *Entry) bool {
	return e.Seq == other.Seq && e.DueAt.Equal(other.DueAt) && e.DueTo.Equal(other.DueTo)
}

// Lateness is how long after its time a run began its first attempt. spread is the jitter of its occurrence. ok is false
// if it did not begin, if it is not known when, or if it had no time of its own: a backfill or a redrive.
func (e *Entry) Lateness(spread time.Duration) (late time.Duration, ok bool) {
	began, due := e.BeganAt(), e.RunAt
	first := len(e.Attempts) > 0 && e.Attempts[0].Number == 1 && !e.Attempts[0].StartedAt.IsZero()
	switch {
	case e.Origin == FromBackfill || e.Origin == FromRedrive:
		return 0, false
	case first: // its run time is that of the last attempt
		began, due = e.Attempts[0].StartedAt, e.DueAt.Add(spread)
	case e.Attempt > 1 || began.IsZero():
		return 0, false
	case e.Origin == FromMissed: // its run time is when it was caught up
		due = e.DueAt.Add(spread)
	}
	return max(began.Sub(due), 0), true
}
