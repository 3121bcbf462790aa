package job

import (
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/problem"
)

// DeadLetter is a failed run that waits for redrive or discard.
type DeadLetter struct {
	Key
	FailedAt time.Time
	Attempt  int16
	Reason   Reason
	Status   int    // of the target's protocol; 0 if none
	Cause    string // see [Cause]
	Message  string
	JobName  string // empty if the job is deleted
	Queue    string
}

// DeadFilter selects dead letters. A zero field selects all.
type DeadFilter struct {
	Job          uuid.UUID `json:"job,omitzero"`
	Queue        string    `json:"queue,omitempty"`
	Reason       Reason    `json:"reason,omitempty"`
	Cause        string    `json:"cause,omitempty"`
	FailedFrom   time.Time `json:"failed_from,omitzero"`
	FailedBefore time.Time `json:"failed_before,omitzero"`
}

// DeadQuery asks for a page of dead letters, newest first.
type DeadQuery struct {
	Namespace uuid.UUID
	DeadFilter
	Limit int
	After RunMark
}

// DeadPage is a page of dead letters. It may be short even if there are more.
type DeadPage struct {
	Letters []DeadLetter
	Next    *RunMark // nil after the last page
}

// OperationKind is what an operation does to dead letters.
type OperationKind string

// The kinds of operations.
const (
	Redrive OperationKind = "redrive"
	Discard OperationKind = "discard"
)

// OperationState is the state of an operation.
type OperationState string

// The states of operations.
const (
	OperationRunning  OperationState = "running"
	OperationFinished OperationState = "finished"
	OperationAborted  OperationState = "aborted"
	OperationFailed   OperationState = "failed" // given up after repeated errors: see [AfterFailure]
)

// Operation is work on many dead letters, which nodes do a few at a time.
type Operation struct {
	ID        uuid.UUID
	Kind      OperationKind
	Filter    DeadFilter
	Rate      int // per second
	State     OperationState
	Count     int64 // dead letters that the filter selected when it began
	Done      int64
	Failed    int64  // skipped because the job is deleted or the run is live
	Problem   string // error of the last try to work on it; empty if it succeeded
	Actor     string
	CreatedAt time.Time
	EndedAt   time.Time // zero while it is running
}

// OperationParams is an operation to begin.
type OperationParams struct {
	Namespace  uuid.UUID
	Kind       OperationKind
	Filter     DeadFilter
	Rate       int
	Actor      string
	Idempotent *IdempotentRequest // nil: each request begins an operation
}

// MaxOperationRate bounds how many dead letters an operation handles per second.
const MaxOperationRate = 1000

// Validate returns all problems at once: see [problem.All].
func (p OperationParams) Validate() error {
	var c problem.Checker
	problem.OneOf(&c, "kind", p.Kind, Redrive, Discard)
	if p.Rate < 1 || p.Rate > MaxOperationRate {
		c.Add("rate", "it is not between 1 and 1000", "leave it out for 50 per second")
	}
	return c.Err()
}

// The pause after an error doubles each time. An operation is given up after about six minutes of errors.
const (
	maxOperationFailures = 10
	firstOperationPause  = time.Second
	maxOperationPause    = time.Minute
)

// AfterFailure decides how an operation continues after a number of errors in a row: it waits, or is given up.
func AfterFailure(failures int) (wait time.Duration, giveUp bool) {
	if failures >= maxOperationFailures {
		return 0, true
	}
	return min(firstOperationPause<<max(failures-1, 0), maxOperationPause), false
}
