package job

import (
	"cmp"
	"time"

	"github.com/google/uuid"
)

// Key is a run's natural key. Encoded as the run's id it is also the idempotency key, unless the job has another.
type Key struct {
	Partition int16
	Job       uuid.UUID
	DueAt     time.Time // nominal time, never changes
	Seq       int16     // 0 if by schedule; from 1 if triggered or backfilled
}

// RunKey is a Key for maps. It has no pointers, so the garbage collector does not scan large maps of it. Equal instants
// are equal whatever their zone.
type RunKey struct {
	Job   uuid.UUID
	DueAt int64 // microseconds since 1970
	Seq   int16
}

// RunKey returns the key in comparable form.
func (k Key) RunKey() RunKey { return RunKey{k.Job, k.DueAt.UnixMicro(), k.Seq} }

// CompareDue orders runs of a job as they are to start: Admit lets the oldest start first.
func (k Key) CompareDue(o Key) int {
	return cmp.Or(k.DueAt.Compare(o.DueAt), cmp.Compare(k.Seq, o.Seq))
}

// Run is one occurrence of a job.
type Run struct {
	Key
	Version      int32     // of the job, when the run was created
	RunAt        time.Time // when it may start; jitter and retries move it
	State        RunState
	Attempt      int16 // the fencing token; 0 before the first claim
	FreeAttempts int16 // attempts that do not count against max_attempts
	Priority     int16
	Origin       Origin
	Queue        int32 // its id in the database
	// ConcurrencyKey is a [Concurrency.ID]; 0 if there is none.
	ConcurrencyKey int64
	ConcurrencyMax int32 // of the job; 0 if there is none
}

// RunState is the state of a live run. The numbers are stored.
type RunState int16

// The states of live runs. "Due" is a comparison with run_at, not a state.
const (
	Pending RunState = 0
	Running RunState = 1
	Waiting RunState = 2 // accepted by its target, which will report
)

// Origin is how a run was created. The numbers are stored.
type Origin int16

// The origins.
const (
	FromSchedule Origin = 0
	FromTrigger  Origin = 1
	FromBackfill Origin = 2
	FromMissed   Origin = 3 // by schedule, but missed and caught up
	FromRedrive  Origin = 4 // an ended run that a user retried or redrove
)

// OriginNames are the origins as the API, traces and the archive name them.
var OriginNames = map[Origin]string{
	FromSchedule: "schedule", FromTrigger: "trigger", FromBackfill: "backfill", FromMissed: "missed",
	FromRedrive: "redrive",
}

// Outcome is the result of an attempt.
type Outcome struct {
	Kind       OutcomeKind
	Retryable  bool          // of a failure: may it be retried?
	Unknown    bool          // of a failure: the target may have done the work
	Down       bool          // of a failure: the target is down, overloaded or does not respond
	RetryAfter time.Duration // delay that the target asked for; 0 if none
	Gone       bool          // the target is gone permanently: pause the job
	NoKey      bool          // of a failure: it had no idempotency key, so its target received nothing
	Status     int           // of the target's protocol, e.g. 503; 0 if none
	Message    string        // for people; bounded
	Result     string        // of a success, for readers of the run; bounded
	Output     string        // the end of what a command wrote; bounded, safe for a terminal
	// OutputTotal is how many bytes the command wrote, including those before Output.
	OutputTotal int64
	// NeedsKind, of a deferral, is the kind of target that the node does not have.
	NeedsKind string
	// Reason of a cancellation: ReasonReplaced or ReasonDeleted, empty if a user asked for it.
	Reason Reason
}

// OutcomeKind is the kind of an Outcome. The numbers are stored.
type OutcomeKind int16

// The kinds of outcomes.
const (
	Succeeded OutcomeKind = 1
	Failed    OutcomeKind = 2
	Accepted  OutcomeKind = 3
	Lost      OutcomeKind = 4 // its session died, or its target did not report in time
	Cancelled OutcomeKind = 5
	// Deferred: the target was not tried, because it is busy or its breaker is open. This does not count as an attempt.
	// RetryAfter says when to try, Message why not now.
	Deferred OutcomeKind = 6
	Snoozed  OutcomeKind = 7 // the worker asked to retry after RetryAfter; this does not count as an attempt
)

// Ended is how a run left the live table. The numbers are stored in history.
type Ended int16

// The ends of runs.
const (
	EndedSucceeded Ended = 1
	EndedFailed    Ended = 2 // becomes a dead letter
	EndedCancelled Ended = 3
	EndedSkipped   Ended = 4
)

// Reason says why a run was skipped or did not succeed.
type Reason string

// The reasons. Users filter by these codes, so they never change.
const (
	ReasonNone           Reason = ""
	ReasonMissed         Reason = "missed"          // policy skip, or not the newest with once
	ReasonMissedWindow   Reason = "missed_window"   // older than catch_up_window
	ReasonMissedMax      Reason = "missed_max"      // more than missed.max
	ReasonPaused         Reason = "paused"          // the job was paused
	ReasonOverlap        Reason = "overlap"         // another run of the job was live
	ReasonOverlapLimit   Reason = "overlap_limit"   // too many runs of the job were waiting
	ReasonExpired        Reason = "expired"         // not started within the deadline
	ReasonReplaced       Reason = "replaced"        // cancelled by a newer run
	ReasonGap            Reason = "dst_gap"         // the time did not exist that day
	ReasonCalendar       Reason = "calendar"        // excluded by a calendar
	ReasonDeleted        Reason = "deleted"         // the job was deleted
	ReasonRestored       Reason = "restored"        // due in a time that a restore of the database forgot
	ReasonRejected       Reason = "rejected"        // another attempt would fail too
	ReasonAttempts       Reason = "attempts"        // no attempts left
	ReasonLost           Reason = "lost"            // too many attempts were lost
	ReasonUnknownOutcome Reason = "unknown_outcome" // at_most_once: the target may have done the work
	ReasonGone           Reason = "gone"            // the target is gone permanently
	ReasonCancelled      Reason = "cancelled"       // by a user
)

// Missed reports whether an occurrence was skipped because no node served its job when it was due.
func (r Reason) Missed() bool {
	return r == ReasonMissed || r == ReasonMissedWindow || r == ReasonMissedMax
}
