package job

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// The types in this file pass between packages that do not import each other: engine, pull, member, postgres and the
// targets.

// Attempt is one claimed try of a run, with what its target needs.
type Attempt struct {
	Key       Key
	Session   uuid.UUID // that it is leased to
	Number    int16     // from 1; the fencing token
	Version   int32
	Origin    Origin
	RunAt     time.Time
	Queue     int32 // its id in the database
	Timeout   time.Duration
	Namespace uuid.UUID
	Kind      string  // of the target; empty if the job was deleted since
	Config    string  // of the target, JSON
	Payload   string  // JSON; empty if there is none
	Limits    []Limit // whose permits it holds
	Trace     string  // traceparent of the request that triggered the run; empty if there is none
	// Unsampled says that the node that delivers it does not sample the run's own trace.
	Unsampled bool

	KeyExpression string // the job's idempotency_key, if the key of the run is not decided yet: see MakeKey
	OwnKey        string // the idempotency key, if it is not the run's id
	KeyProblem    string // why it has no key, so that it must not be delivered
	About         string // JSON of expr.Job, if an expression may need it
}

// Completion is an attempt with its outcome.
type Completion struct {
	Key     Key
	Attempt int16
	Session uuid.UUID // that the attempt must be leased to
	// Namespace is that of the worker that reports it. The outcomes of nodes have none.
	Namespace uuid.UUID
	Queue     int32 // of the run; 0: not known. A worker reports on runs of its queue only.
	Outcome   Outcome
	Limits    []Limit       // whose permits its end frees, as far as the caller knows
	Trace     string        // see Attempt
	Late      time.Duration // how long after its run time it started, as the node measured it; 0: not known
}

// Completion is the attempt with an outcome.
func (a *Attempt) Completion(o Outcome) Completion {
	return Completion{
		Key: a.Key, Session: a.Session, Queue: a.Queue, Attempt: a.Number, Outcome: o, Limits: a.Limits,
		Trace: a.Trace,
	}
}

// Output is what an attempt has written, so far or in total.
type Output struct {
	Key       Key
	Session   uuid.UUID // that the attempt is leased to
	Attempt   int16
	Namespace uuid.UUID
	Text      string // the end of it
	Total     int64  // bytes written since the start, including those before Text
}

// Admitted is the result of an admission.
type Admitted struct {
	Claimed *Claimed // set if the run has started
	Done    bool     // the run needs no further admission now
	Refusal Refusal  // of the limit that the run waits for
	Skipped bool     // it is Done because its policy skipped it
	// Alone: it replaces others under a limit. It has to be decided alone, because that transaction may have to be undone.
	Alone bool
	Later bool // it could not be decided now, for example because a change of the job has locked it: ask again

	Expires time.Time // of a run that waits for another run of its job: when its deadline passes; zero: never
	RunAt   time.Time // of a run that is Done because it is to start later than the node thought; otherwise zero
}

// Planned is the result of one planning transaction.
type Planned struct {
	Now     time.Time // the database instant that it was decided by
	Runs    []Run
	Cursors int
	Skipped int64
	More    bool    // there was more to plan than one transaction takes
	Broken  []error // cursors that could not be planned, and why
	Missed  Outage  // what of it was missed
}

// Ownership says which session owns a partition. Owner is uuid.Nil if none does.
type Ownership struct {
	Partition int16
	Owner     uuid.UUID
	Epoch     int64
}

// PlanParams says which part of the future to plan.
type PlanParams struct {
	Session    uuid.UUID // plan only what it owns; zero means any
	Partitions []int16
	LookAhead  time.Duration
	Cursors    int // maximum in one transaction
	Runs       int // maximum in one transaction, 0 means PlanRuns
	// Full has the namespaces whose cursors are left out if they are late by more than MissedGrace.
	Full []uuid.UUID
}

// FollowZonesParams says whose cursors follow which time zone rules.
type FollowZonesParams struct {
	Session   uuid.UUID // owner of the partitions
	Rules     string    // identifies the rules of this process
	LookAhead time.Duration
}

// SweepParams says which runs a sweep looks for.
type SweepParams struct {
	Partitions []int16
	From, To   time.Time // the range of their run times
	Limit      int       // the most runs of one partition; 0: all
}

// CatchUpParams says which partitions to catch up.
type CatchUpParams struct {
	Session    uuid.UUID // their owner
	Partitions []int16
	LookAhead  time.Duration
}

// CatchUpResult is what CatchUp did with planned runs that were missed.
type CatchUpResult struct {
	Outage         // what was decided
	Left   []int16 // partitions that have more of them
}

// Session is a live process.
type Session struct {
	ID        uuid.UUID
	ExpiresAt time.Time // by the database clock, unless it is renewed
	Owns      bool      // may own partitions
	Kinds     []string  // of targets that it has
}

// Survey lists live sessions and partition owners at one instant.
type Survey struct {
	Now        time.Time // the database's
	Sessions   []Session // those that have not expired, ordered by id
	Ownerships []Ownership
	Needs      map[int16][]string // kinds of targets that owners of a partition lacked
}

// The errors of sessions and attempts.
var (
	// ErrSessionExpired says that a session is over. Its process must stop working on its runs.
	ErrSessionExpired = errors.New("the session has expired")
	// ErrStale says that an attempt has ended, or that a newer attempt of the run has replaced it.
	ErrStale = errors.New("job: the attempt is over, or another one has taken its place")
)
