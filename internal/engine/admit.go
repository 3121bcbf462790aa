package engine

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/engine/wheel"
	"github.com/belfry-dev/belfry/internal/job"
)

// blockedPause is how long a run that its policy makes wait is left alone before it is retried. It is retried
// earlier if the run that it waits for ends.
const blockedPause = time.Second

// admit decides about runs that a claim did not take, one at a time, until the node stops: the next owner decides about
// the others. Admitters are separate from claimers so that jobs which need decisions do not slow down the others.
func (e *Engine) admit(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.undecided.added:
		}
		if !e.awaitSlot(ctx) {
			return
		}
		runs, started := e.undecided.take(e.slots.hasShare), 0
		for _, r := range runs { // one
			if !e.wheel.ReturnIfPaused(r) {
				started += e.admitOne(ctx, r)
			}
		}
		e.slots.release(1 - started)
		if len(runs) == 0 { // all namespaces have their share of the slots
			e.pauseForSlots(ctx)
		}
	}
}

// awaitSlot waits for a free slot. It returns false when the node stops.
func (e *Engine) awaitSlot(ctx context.Context) bool {
	for ctx.Err() == nil {
		if e.slots.acquire(1, 1) == 1 {
			return true
		}
		e.pauseForSlots(ctx)
	}
	return false
}

func (e *Engine) pauseForSlots(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(gatherPause):
	}
}

// admitOne applies the policy of a run and returns how many runs it started.
func (e *Engine) admitOne(ctx context.Context, r job.Run) (started int) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementLimit)
	defer cancel()
	session := e.Member.Session()
	admitted, err := e.Claimer.Admit(limited, session, r.Key, e.Lead)
	switch {
	case err != nil:
		return e.resolve(ctx, session, []job.Run{r}, err)
	case admitted.Attempt != nil:
		started = e.handOver([]job.Attempt{*admitted.Attempt})
		e.wheel.Release([]job.Run{r})
		return started
	case admitted.Done:
		e.wheel.Release([]job.Run{r})
		if at := admitted.RunAt; !at.IsZero() && e.Bound.Until(at) <= e.LookAhead { // for example, it was caught up
			r.RunAt = at
			e.add(ctx, []job.Run{r})
		}
	case admitted.Refusal != (job.Refusal{}):
		e.wheel.ReturnRefused([]wheel.Refused{{Run: r, Why: admitted.Refusal}}, e.Bound.Now())
	case e.Bound.Until(r.RunAt) > 0:
		e.wheel.ReturnAt(r, r.RunAt.Add(e.Lead+wheel.SlotWidth)) // taken when it is due, not Lead before
	default:
		e.wheel.ReturnBlocked(r, e.Bound.Now().Add(blockedPause))
	}
	return 0
}
