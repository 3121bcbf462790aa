package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Run is one attempt of a run, as passed to a handler.
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
	// Traceparent is the W3C trace context of the attempt. The context of a handler has a span below it.
	Traceparent string

	mu       sync.Mutex
	percent  *int
	progress *string
	result   json.RawMessage
}

// Decode decodes the payload. Without a payload it does nothing.
func (r *Run) Decode(into any) error {
	if len(r.Payload) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Payload, into); err != nil {
		return fmt.Errorf("read the payload: %w", err)
	}
	return nil
}

// Progress reports the progress of the run: a percentage, and a message of up to 500 characters for people. The
// next heartbeat sends it. Only the last call before a heartbeat counts.
func (r *Run) Progress(percent int, text string) {
	percent = min(max(percent, 0), 100)
	if runes := []rune(text); len(runes) > maxProgress {
		text = string(runes[:maxProgress])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.percent, r.progress = &percent, &text
}

// Result sets the result that is stored with the run if it succeeds. As JSON it may have up to 16 kB.
func (r *Run) Result(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if len(text) > maxResult {
		return fmt.Errorf("the result has %d bytes; at most %d are stored: store it elsewhere and report where it is",
			len(text), maxResult)
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

// Reported returns the progress and the result that the handler has set so far. It is for tests.
func (r *Run) Reported() (percent int, progress string, result json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.percent != nil {
		percent, progress = *r.percent, *r.progress
	}
	return percent, progress, r.result
}

// takeProgress returns progress that was not sent yet, once.
func (r *Run) takeProgress() (percent *int, progress *string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	percent, progress = r.percent, r.progress
	r.percent, r.progress = nil, nil
	return percent, progress
}

// Handler processes a run.
type Handler func(ctx context.Context, run *Run) error

// Middleware wraps handlers: for logs, traces, transactions.
type Middleware func(next Handler) Handler

// Why the context of a handler ended: see [context.Cause]. After ErrCancelled and ErrLost, the return value
// of the handler is not reported, because the run has ended or belongs to another worker.
var (
	ErrCancelled = errors.New("worker: the run was cancelled")
	ErrTimeout   = errors.New("worker: the attempt took longer than the job's timeout")
	ErrLost      = errors.New("worker: the run is no longer this worker's")
	ErrStopping  = errors.New("worker: the worker is stopping")
)

// Outcome is what a handler's return value means.
type Outcome struct {
	Kind       string // succeeded, failed, cancelled or snoozed
	Final      bool   // of a failure: it is not retried
	RetryAfter time.Duration
	Message    string
}

type verdict struct {
	Outcome
	err error
}

func (v *verdict) Error() string { return v.Message }
func (v *verdict) Unwrap() error { return v.err }

// Snooze postpones a run: a worker gets it again after d, at most 30 days. It does not count as an attempt.
func Snooze(d time.Duration) error {
	return &verdict{Outcome: Outcome{Kind: "snoozed", RetryAfter: d, Message: "put off for " + d.String()}}
}

// RetryAfter says that the attempt failed, and that the next one must not start before d has passed, at most a
// day.
func RetryAfter(d time.Duration, err error) error {
	return &verdict{Outcome{Kind: "failed", RetryAfter: d, Message: text(err)}, err}
}

// Permanent says that the attempt failed and that a retry would fail too: the run becomes a dead letter
// immediately.
func Permanent(err error) error {
	return &verdict{Outcome{Kind: "failed", Final: true, Message: text(err)}, err}
}

// Cancel ends a run as cancelled: it is not needed any more, and nothing is wrong.
func Cancel(why string) error {
	return &verdict{Outcome: Outcome{Kind: "cancelled", Message: why}}
}

func text(err error) string {
	if err == nil {
		return "failed"
	}
	return err.Error()
}

// OutcomeOf returns the outcome that the return value of a handler means.
func OutcomeOf(err error) Outcome {
	var v *verdict
	switch {
	case err == nil:
		return Outcome{Kind: "succeeded"}
	case errors.As(err, &v):
		o := v.Outcome
		if o.Kind == "failed" {
			o.Message = err.Error() // including wrapping errors
		}
		return o
	default:
		return Outcome{Kind: "failed", Message: err.Error()}
	}
}
