package job

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// DeadLetter is a failed run that waits for redrive or discard.
type DeadLetter struct {
	Key
	FailedAt time.Time
	Attempt  int16
	Reason   Reason
	Message  string
	JobName  string // empty: the job is deleted
	Queue    string
}

// DeadFilter says which dead letters are meant. What is zero does not matter.
type DeadFilter struct {
	Job          uuid.UUID `json:"job,omitzero"`
	Queue        string    `json:"queue,omitempty"`
	Reason       Reason    `json:"reason,omitempty"`
	FailedFrom   time.Time `json:"failed_from,omitzero"`
	FailedBefore time.Time `json:"failed_before,omitzero"`
}

// DeadQuery asks for a page of dead letters, the newest first.
type DeadQuery struct {
	Namespace uuid.UUID
	DeadFilter
	Limit int
	After RunMark
}

// DeadPage is a page of dead letters. It may be short though there is more.
type DeadPage struct {
	Letters []DeadLetter
	Next    *RunMark // nil: there is no more
}

// OperationKind is what is done to many dead letters.
type OperationKind string

// The kinds of operations.
const (
	Redrive OperationKind = "redrive"
	Discard OperationKind = "discard"
)

// OperationState is how far an operation is.
type OperationState string

// The states of operations.
const (
	OperationRunning  OperationState = "running"
	OperationFinished OperationState = "finished"
	OperationAborted  OperationState = "aborted"
	OperationFailed   OperationState = "failed" // it could not be worked on: see [AfterFailure]
)

// Operation is work on many dead letters, which nodes do a few at a time.
type Operation struct {
	ID        uuid.UUID
	Kind      OperationKind
	Filter    DeadFilter
	Rate      int // per second
	State     OperationState
	Count     int64 // when it began
	Done      int64
	Failed    int64  // their job is deleted, or the run is live
	Problem   string // why it could not be worked on the last time; empty: it could
	Actor     string
	CreatedAt time.Time
	EndedAt   time.Time // zero: it is running
}

// OperationParams is an operation to be begun.
type OperationParams struct {
	Namespace  uuid.UUID
	Kind       OperationKind
	Filter     DeadFilter
	Rate       int
	Actor      string
	Idempotent *IdempotentRequest // nil: as often as it is asked for
}

// MaxOperationRate bounds how many dead letters an operation works on per second.
const MaxOperationRate = 1000

// Validate returns every problem of an order at once: see [Problems].
func (o OperationParams) Validate() error {
	var c Checker
	OneOf(&c, "kind", o.Kind, Redrive, Discard)
	if o.Rate < 1 || o.Rate > MaxOperationRate {
		c.Add("rate", "it is not between 1 and 1000", "leave it out for 50 per second")
	}
	return errors.Join(c...)
}

// How long an operation that could not be worked on steps aside: twice as long
// each time, so that it is given up after six minutes.
const (
	maxOperationFailures = 10
	firstOperationPause  = time.Second
	maxOperationPause    = time.Minute
)

// AfterFailure decides what becomes of an operation that could not be worked on so
// many times in a row: it waits, or is given up.
func AfterFailure(failures int) (wait time.Duration, giveUp bool) {
	if failures >= maxOperationFailures {
		return 0, true
	}
	return min(firstOperationPause<<max(failures-1, 0), maxOperationPause), false
}
