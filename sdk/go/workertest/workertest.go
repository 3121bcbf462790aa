// Package workertest runs a handler without a server: one attempt, with a run that
// you make, and says what it came to.
//
// In a bubble of testing/synctest the clock is virtual: a handler that waits for an
// hour is done at once, and its timeout too.
//
//	func TestReminder(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			got := workertest.Do(t.Context(), remind, workertest.Want{Payload: workertest.JSON(Reminder{To: "a"}), Timeout: time.Hour})
//			…
//		})
//	}
package workertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/sdk/go/worker"
)

// Result is what an attempt came to.
type Result struct {
	worker.Outcome
	Err      error // that the handler returned, or its panic
	Percent  int   // what it told last
	Progress string
	Value    json.RawMessage // the result that it set
	Took     time.Duration
}

// Want is a run with what is left out filled in.
type Want struct {
	ID, Key, Job, JobName, Handler string
	Attempt                        int
	DueAt                          time.Time
	Timeout                        time.Duration
	Payload                        json.RawMessage
	// CancelAfter: the run is cancelled after so long; 0: it is not.
	CancelAfter time.Duration
}

// JSON is a payload.
func JSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("workertest: %v", err)) //nolint:forbidigo // a test's own mistake
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
	out.Percent, out.Progress, out.Value = run.Told()
	return out
}

func (w Want) run(begun time.Time) *worker.Run {
	or := func(s, other string) string {
		if s == "" {
			return other
		}
		return s
	}
	r := &worker.Run{
		ID: or(w.ID, "run_test"), Job: or(w.Job, "job_test"), JobName: or(w.JobName, "test"), Handler: or(w.Handler, "test"), Origin: "trigger",
		Attempt: max(w.Attempt, 1), DueAt: w.DueAt, RunAt: begun, ClaimedAt: begun, Timeout: w.Timeout, Payload: w.Payload,
	}
	r.Key = or(w.Key, r.ID)
	if r.DueAt.IsZero() {
		r.DueAt = begun
	}
	if r.Timeout == 0 {
		r.Timeout = 30 * time.Second
	}
	return r
}

func now() time.Time { return time.Now() } //nolint:forbidigo // virtual in a bubble, and only for the run's own times

func call(ctx context.Context, h worker.Handler, run *worker.Run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return h(ctx, run)
}
