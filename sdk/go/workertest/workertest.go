// Package workertest calls a handler without a server: it makes one attempt of a run that you define and
// returns the outcome.
//
// In a bubble of testing/synctest the clock is virtual: a handler that waits for an hour is done immediately,
// and timeouts expire immediately too.
//
//	func TestReminder(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			payload := workertest.JSON(Reminder{To: "a"})
//			handler := worker.Typed(remind) // func(context.Context, *worker.Run, Reminder) error
//			got := workertest.Do(t.Context(), handler, workertest.Want{Payload: payload, Timeout: time.Hour})
//			…
//		})
//	}
package workertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/sdk/go/worker"
)

// Result is the outcome of an attempt.
type Result struct {
	worker.Outcome
	Err      error // what the handler returned, or its panic
	Percent  int   // the last progress
	Progress string
	Value    json.RawMessage // the result that the handler set
	Took     time.Duration
}

// Want defines a run. Fields that are not set have defaults.
type Want struct {
	ID, Key, Job, JobName, Handler string
	Attempt                        int
	DueAt                          time.Time
	Timeout                        time.Duration
	Payload                        json.RawMessage
	// CancelAfter cancels the run after this time; 0: never.
	CancelAfter time.Duration
}

// JSON returns v as a payload. It panics if v cannot be encoded.
func JSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("workertest: %v", err)) //nolint:forbidigo // a mistake in the test
	}
	return text
}

// Do makes one attempt.
func Do(ctx context.Context, h worker.Handler, want Want) (out Result) {
	begun := now()
	run := want.run(begun)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, run.Timeout, worker.ErrTimeout)
	defer stop()
	if want.CancelAfter > 0 {
		t := time.AfterFunc(want.CancelAfter, func() { cancel(worker.ErrCancelled) })
		defer t.Stop()
	}
	out.Err = call(ctx, h, run)
	out.Took = now().Sub(begun)
	switch {
	case out.Err != nil && errors.Is(context.Cause(ctx), worker.ErrCancelled):
		out.Outcome = worker.Outcome{Kind: "cancelled", Message: worker.ErrCancelled.Error()}
	default:
		out.Outcome = worker.OutcomeOf(out.Err)
	}
	out.Percent, out.Progress, out.Value = run.Reported()
	return out
}

func (w Want) run(begun time.Time) *worker.Run {
	r := &worker.Run{
		ID: cmp.Or(w.ID, "run_test"), Job: cmp.Or(w.Job, "job_test"), JobName: cmp.Or(w.JobName, "test"),
		Handler: cmp.Or(w.Handler, "test"), Origin: "trigger", Attempt: max(w.Attempt, 1),
		DueAt: w.DueAt, RunAt: begun, ClaimedAt: begun, Timeout: w.Timeout, Payload: w.Payload,
	}
	r.Key = cmp.Or(w.Key, r.ID)
	if r.DueAt.IsZero() {
		r.DueAt = begun
	}
	if r.Timeout == 0 {
		r.Timeout = 30 * time.Second
	}
	return r
}

// now is only used for the times of the run. It is virtual in a bubble of testing/synctest.
func now() time.Time { return time.Now() } //nolint:forbidigo // see above

func call(ctx context.Context, h worker.Handler, run *worker.Run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return h(ctx, run)
}
