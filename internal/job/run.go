package job

import (
	"time"

	"github.com/google/uuid"
)

// Key is a run's natural key. Written as its id it is also its idempotency key,
// unless the job says otherwise.
type Key struct {
	Partition int16
	Job       uuid.UUID
	DueAt     time.Time // nominal time, never changes
	Seq       int16     // 0: by schedule; from 1: triggered or backfilled
}

// RunKey is a Key for maps. It holds no pointers, so the garbage collector does
// not scan large maps of it, and equal instants are equal whatever their zone.
type RunKey struct {
	Job   uuid.UUID
	DueAt int64 // microseconds since 1970
	Seq   int16
}

// RunKey returns the key in a form that can be compared.
func (k Key) RunKey() RunKey { return RunKey{k.Job, k.DueAt.UnixMicro(), k.Seq} }

// Run is one occurrence of a job.
type Run struct {
	Key
	Version      int32     // of the job, when the run was made
	RunAt        time.Time // when it may start: jitter and retry delay move it
	State        RunState
	Attempt      int16 // the fencing token; 0 before the first claim
	FreeAttempts int16 // attempts that do not count against max_attempts
	Priority     int16
	Origin       Origin
	Queue        int32 // of the database
	// ConcurrencyKey that it runs under, see [Concurrency.ID]; 0: none.
	ConcurrencyKey int64
	ConcurrencyMax int32 // of the job; 0: none
}

// RunState of a live run. Their numbers are stored.
type RunState int16

// The states of live runs. "Due" is a comparison with run_at, not a state.
const (
	Pending RunState = 0
	Running RunState = 1
	Waiting RunState = 2 // accepted by its target, which will report
)

// Origin is how a run came to be. The numbers are stored.
type Origin int16

// The origins.
const (
	FromSchedule Origin = 0
	FromTrigger  Origin = 1
	FromBackfill Origin = 2
	FromMissed   Origin = 3 // by schedule, but caught up late
	FromRedrive  Origin = 4
)

// Outcome is what an attempt came to.
type Outcome struct {
	Kind       OutcomeKind
	Retryable  bool          // of a failure: may it be tried again?
	Unknown    bool          // of a failure: the target may have done its work all the same
	RetryAfter time.Duration // what the target asked for; 0: nothing
	Gone       bool          // the target says it is gone for ever: pause the job
	Status     int           // of the target's protocol, e.g. 503; 0: none
	Message    string        // for people; bounded
	Result     string        // of a success, for those who read the run; bounded
	Output     string        // the end of what a command wrote; bounded, fit for a terminal
	// OutputTotal is how many bytes that was, with those before Output.
	OutputTotal int64
	// Reason of a cancellation: empty for one by a user, else ReasonReplaced or
	// ReasonDeleted.
	Reason Reason
}

// OutcomeKind is the kind of an Outcome. The numbers are stored.
type OutcomeKind int16

// The kinds of outcomes.
const (
	Succeeded OutcomeKind = 1
	Failed    OutcomeKind = 2
	Accepted  OutcomeKind = 3
	Lost      OutcomeKind = 4 // its session died, or its deadline passed unreported
	Cancelled OutcomeKind = 5
	// Deferred: it was not tried, as its target had no room for it, and costs the
	// run no attempt. RetryAfter says when it may be tried, Message why not now.
	Deferred OutcomeKind = 6
	Snoozed  OutcomeKind = 7 // not now: again after RetryAfter, and no attempt is used up
)

// Ended is how a run left the live table. The numbers are stored in history.
type Ended int16

// The ends of runs.
const (
	EndedSucceeded Ended = 1
	EndedFailed    Ended = 2 // a dead letter
	EndedCancelled Ended = 3
	EndedSkipped   Ended = 4
)

// Reason says why a run was skipped or ended otherwise than by success.
type Reason string

// The reasons. They are codes: users filter by them, so they never change.
const (
	ReasonNone           Reason = ""
	ReasonMissed         Reason = "missed"          // policy skip, or not the newest with once
	ReasonMissedWindow   Reason = "missed_window"   // older than catch_up_window
	ReasonMissedMax      Reason = "missed_max"      // more than max
	ReasonPaused         Reason = "paused"          // the job was paused
	ReasonOverlap        Reason = "overlap"         // another run of the job was live
	ReasonQueueLimit     Reason = "queue_limit"     // too many runs of the job wait
	ReasonExpired        Reason = "expired"         // not started within the deadline
	ReasonReplaced       Reason = "replaced"        // cancelled by a newer run
	ReasonGap            Reason = "dst_gap"         // the time did not exist that day
	ReasonCalendar       Reason = "calendar"        // excluded by a calendar
	ReasonDeleted        Reason = "deleted"         // the job was deleted
	ReasonRejected       Reason = "rejected"        // the target said no, for good
	ReasonAttempts       Reason = "attempts"        // no attempts left
	ReasonLost           Reason = "lost"            // attempts died again and again
	ReasonUnknownOutcome Reason = "unknown_outcome" // at_most_once: it may have happened
	ReasonGone           Reason = "gone"            // the target is gone for ever
	ReasonCancelled      Reason = "cancelled"       // by a user
)
