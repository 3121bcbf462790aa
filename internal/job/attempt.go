package job

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// What the machines hand each other. They do not know each other, so the words
// for it are here.

// Attempt is one try of a run, claimed, with what its target needs.
type Attempt struct {
	Key       Key
	Session   uuid.UUID // that it is leased to
	Number    int16     // from 1; the fencing token
	Version   int32
	Origin    Origin
	RunAt     time.Time
	Timeout   time.Duration
	Namespace uuid.UUID
	Kind      string  // of the target; empty: the job was deleted meanwhile
	Config    string  // of the target, JSON
	Payload   string  // JSON; empty: none
	Limits    []Limit // that it has a place of
	Trace     string  // traceparent of whoever triggered the run; empty: none

	KeyExpression string // the job's idempotency_key; empty: the run's id is the key
	OwnKey        string // what that gave for the run, or what it was delivered under before, see MakeKey and KeepKey
	About         string // JSON of expr.Job, where an expression may ask for it
}

// Completion is an attempt with its outcome.
type Completion struct {
	Key     Key
	Attempt int16
	Session uuid.UUID // that has to have the attempt; zero: whichever has it
	Outcome Outcome
	Limits  []Limit // whose places its end frees, as far as is known
	OwnKey  string  // see Attempt; kept with the run
}

// KeepKey is Attempt.KeepKey for what a worker had. A claim keeps the key that an
// expression gave, so a run that has none by then was given out under its id.
func (c *Completion) KeepKey() {
	if c.Outcome.Kind != Succeeded {
		c.OwnKey = FormatRunID(c.Key)
	}
}

// Output is what an attempt has written, so far or at all.
type Output struct {
	Key       Key
	Attempt   int16
	Namespace uuid.UUID
	Text      string // its end
	Total     int64  // bytes since it began, with those before Text
}

// Admitted is what became of a run that needed a decision.
type Admitted struct {
	Attempt *Attempt // it has started
	Done    bool     // it need not be asked about again
	Refusal Refusal  // of a limit, for which it waits
}

// Planned is what one transaction of plan did.
type Planned struct {
	Now     time.Time // the database's instant that it was decided by
	Runs    []Run
	Cursors int
	Skipped int64
	More    bool    // there was more to plan than one transaction takes
	Broken  []error // cursors that could not be planned, and why
}

// Ownership is who owns a partition. Owner is uuid.Nil where nobody does.
type Ownership struct {
	Partition int16
	Owner     uuid.UUID
	Epoch     int64
}

// PlanParams says which part of the future to plan.
type PlanParams struct {
	Partitions []int16
	LookAhead  time.Duration
	Cursors    int // at most so many in one transaction
}

// Session is a live process.
type Session struct {
	ID        uuid.UUID
	ExpiresAt time.Time // by the database's clock, unless it is renewed
	Owns      bool      // may be given partitions
}

// Survey is who is alive and who owns what, at one instant.
type Survey struct {
	Now        time.Time // the database's
	Sessions   []Session // those that have not expired, in order of their ids
	Ownerships []Ownership
}

// ErrSessionExpired says that a session is over: who has it must not work any longer.
var ErrSessionExpired = errors.New("the session has expired")
