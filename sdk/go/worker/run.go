package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Run is one attempt of a run, as a handler gets it.
type Run struct {
	ID        string // of the run
	Key       string // idempotency key: the same for all attempts of the run
	Attempt   int    // from 1
	Job       string // id of the job
	JobName   string
	Handler   string
	Origin    string // schedule, trigger, backfill, missed or redrive
	DueAt     time.Time
	RunAt     time.Time
	ClaimedAt time.Time     // by the server's clock
	Timeout   time.Duration // of the attempt
	Payload   json.RawMessage

	mu       sync.Mutex
	percent  *int
	progress *string
	result   json.RawMessage
}

// Decode reads the payload.
func (r *Run) Decode(into any) error {
	if len(r.Payload) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Payload, into); err != nil {
		return fmt.Errorf("read the payload: %w", err)
	}
	return nil
}

// Progress tells how far the run has come: a percentage and a text of up to 500
// characters, for people. It goes with the next heartbeat; of several only the last.
func (r *Run) Progress(percent int, text string) {
	percent = min(max(percent, 0), 100)
	if runes := []rune(text); len(runes) > maxProgress {
		text = string(runes[:maxProgress])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.percent, r.progress = &percent, &text
}

// Result sets what is kept with the run if it succeeds: anything that is at most
// 16 kB as JSON.
func (r *Run) Result(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if len(text) > maxResult {
		return fmt.Errorf("the result has %d bytes; at most %d are kept: store it elsewhere and report where it is", len(text), maxResult)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = text
	return nil
}

const (
	maxProgress = 500
	maxResult   = 16 << 10
	maxMessage  = 4 << 10
)

// Told is what a run has told so far, for tests.
func (r *Run) Told() (percent int, progress string, result json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.percent != nil {
		percent, progress = *r.percent, *r.progress
	}
	return percent, progress, r.result
}

// takeProgress returns progress that was not sent yet.
func (r *Run) takeProgress() (percent *int, progress *string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	percent, progress = r.percent, r.progress
	r.percent, r.progress = nil, nil
	return percent, progress
}

// Handler works on a run.
type Handler func(ctx context.Context, run *Run) error

// Middleware wraps handlers: for logs, traces, transactions.
type Middleware func(next Handler) Handler

// Why the context of a handler ended: see [context.Cause]. What it returns after
// any of these but ErrTimeout and ErrStopping is not reported: nobody asks any more.
var (
	ErrCancelled = errors.New("worker: the run was cancelled")
	ErrTimeout   = errors.New("worker: the attempt took longer than the job's timeout")
	ErrLost      = errors.New("worker: the run is no longer this worker's")
	ErrStopping  = errors.New("worker: the worker stops")
)

// Outcome is what a handler's return value means.
type Outcome struct {
	Kind       string // succeeded, failed, cancelled or snoozed
	Final      bool   // of a failure: it is not tried again
	RetryAfter time.Duration
	Message    string
}

type verdict struct {
	Outcome
	err error
}

func (v *verdict) Error() string { return v.Message }
func (v *verdict) Unwrap() error { return v.err }

// Snooze puts a run off: it is given to a worker again after d, at most 30 days,
// and no attempt is used up.
func Snooze(d time.Duration) error {
	return &verdict{Outcome: Outcome{Kind: "snoozed", RetryAfter: d, Message: "put off for " + d.String()}}
}

// RetryAfter says that an attempt failed, and that the next one is not to be
// before d has passed, at most a day.
func RetryAfter(d time.Duration, err error) error {
	return &verdict{Outcome{Kind: "failed", RetryAfter: d, Message: text(err)}, err}
}

// Permanent says that an attempt failed and that trying again is of no use: the run
// is a dead letter at once.
func Permanent(err error) error {
	return &verdict{Outcome{Kind: "failed", Final: true, Message: text(err)}, err}
}

// Cancel ends a run as cancelled: there is no use in doing it, and nothing is wrong.
func Cancel(why string) error {
	return &verdict{Outcome: Outcome{Kind: "cancelled", Message: why}}
}

func text(err error) string {
	if err == nil {
		return "failed"
	}
	return err.Error()
}

// OutcomeOf says what the return value of a handler means.
func OutcomeOf(err error) Outcome {
	var v *verdict
	switch {
	case err == nil:
		return Outcome{Kind: "succeeded"}
	case errors.As(err, &v):
		o := v.Outcome
		if o.Kind == "failed" {
			o.Message = err.Error() // with what was wrapped around it
		}
		return o
	default:
		return Outcome{Kind: "failed", Message: err.Error()}
	}
}
