package engine

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/engine/wheel"
	"github.com/belfry-dev/belfry/internal/job"
)

// maxAdmits is how many runs one transaction decides about.
const maxAdmits = 500

// admit decides about runs that a claim did not take until the node stops: the next owner decides about the others.
// Admitters are separate from claimers so that jobs which need decisions do not slow down the others.
func (e *Engine) admit(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.undecided.added:
		}
		// Not all that are free: these runs may only wait, and claims would get none for as long as that takes to decide.
		n := e.slots.acquire(min(e.Batch, maxAdmits, e.undecided.len(), (e.slots.left()+1)/2), 0)
		runs := e.undecided.take(n, func(namespace uuid.UUID) int { return e.slots.mayStart(namespace, n) })
		wanted := slices.DeleteFunc(runs, e.wheel.ReturnIfPaused)
		used, _ := e.admitRuns(ctx, wanted, func(ctx context.Context, session uuid.UUID) ([]job.Admitted, error) {
			return e.Claimer.Admit(ctx, session, keysOf(wanted), e.Lead)
		})
		e.slots.release(n - used)
		if len(runs) == 0 { // no slot is free, or all namespaces have their share of them
			e.pauseForSlots(ctx)
		}
	}
}

func (e *Engine) pauseForSlots(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(gatherPause):
	}
}

// admitRuns starts runs of different jobs as far as their policies and limits allow. It returns how many slots they use,
// and those that no limit refused. admit asks the store about them.
func (e *Engine) admitRuns(
	ctx context.Context, runs []job.Run, admit func(context.Context, uuid.UUID) ([]job.Admitted, error),
) (used int, accepted []job.Run) {
	if len(runs) == 0 {
		return 0, nil
	}
	// Not cancelled when the node stops: it must learn whether the claim committed.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementLimit)
	defer cancel()
	session := e.Member.Session()
	admitted, err := admit(limited, session)
	if err == nil {
		err = e.decideKeys(limited, startedOf(admitted))
	}
	if err != nil {
		return e.resolve(ctx, session, runs, err), nil
	}
	now := e.Bound.Now()
	for i, r := range runs {
		used += e.admitted(ctx, r, admitted[i], now)
		if admitted[i].Refusal == (job.Refusal{}) {
			accepted = append(accepted, r)
		}
	}
	return used, accepted
}

func startedOf(admitted []job.Admitted) (started []*job.Attempt) {
	for _, a := range admitted {
		if a.Claimed != nil {
			started = append(started, &a.Claimed.Attempt)
		}
	}
	return started
}

// admitted handles a run that was decided about, and returns 1 if it started.
func (e *Engine) admitted(ctx context.Context, r job.Run, a job.Admitted, now time.Time) (started int) {
	switch {
	case a.Claimed != nil:
		started = e.handOver([]job.Attempt{a.Claimed.Attempt})
		e.wheel.Started([]job.Run{r})
		return started
	case a.Done:
		e.wheel.Release([]job.Run{r})
		if at := a.RunAt; !at.IsZero() && e.Bound.Until(at) <= e.LookAhead { // for example, it was caught up
			r.RunAt = at
			e.add(ctx, []job.Run{r})
		}
	case !e.Member.Owns(r.Partition):
		e.wheel.Release([]job.Run{r})
	case a.Alone:
		e.leaveToAdmitters([]job.Run{r})
	case a.Refusal != (job.Refusal{}):
		e.wheel.ReturnRefused([]wheel.Refused{{Run: r, Why: a.Refusal}}, now)
	case e.Bound.Until(r.RunAt) > 0:
		e.wheel.ReturnAt(r, r.RunAt.Add(e.Lead+wheel.SlotWidth)) // taken when it is due, not Lead before
	case a.Later: // not behind the runs that wait for others, of which only the first is asked about
		e.wheel.ReturnAt(r, now.Add(wheel.BlockedPause))
	default:
		e.wheel.ReturnBlocked(r, now.Add(wheel.BlockedPause), a.Expires)
	}
	return 0
}
