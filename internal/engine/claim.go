package engine

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/claim"
	"github.com/belfry-dev/belfry/internal/engine/wheel"
	"github.com/belfry-dev/belfry/internal/job"
)

// Claimer is the store as claim, admit and interrupt use it.
type Claimer interface {
	Claim(ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration) ([]job.Attempt, error)
	// ResolveClaim returns those of the runs that are leased to the session.
	ResolveClaim(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error)
	// Admit decides about runs of different jobs.
	Admit(ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration) ([]job.Admitted, error)
	// AdmitWaiting does so for runs that wait for permits.
	AdmitWaiting(ctx context.Context, session uuid.UUID, runs []job.Run) ([]job.Admitted, error)
	// KeepKeys stores the idempotency keys of attempts. If it fails, some of the attempts may not be live any more.
	KeepKeys(ctx context.Context, attempts []*job.Attempt) error
	// Fenced returns those of the attempts that are no longer the live one of their run.
	Fenced(ctx context.Context, attempts []job.Attempt) ([]job.Attempt, error)
}

const (
	idlePause = 50 * time.Millisecond // when nothing is due
	// gatherPause is how long a claimer waits for more free slots if there are few: claiming runs one by
	// one costs 20 times as much as claiming a thousand in one statement.
	gatherPause = 3 * time.Millisecond
)

// claimOnce claims runs that are due within the lead, never more than there are free slots, and of a namespace never
// more than its share: the gate would defer the others, and a run that waits in the wheel costs nothing.
func (e *Engine) claimOnce(ctx context.Context) (time.Duration, error) {
	if !e.Member.Valid() || !e.mayClaim() {
		return idlePause, nil
	}
	next, ok := e.wheel.Next()
	if !ok {
		return time.Second, nil
	}
	if wait := e.Bound.Until(next) - e.Lead; wait > 0 {
		return min(wait, time.Second), nil
	}
	n := e.slots.acquire(e.Batch, min(e.Batch, e.Slots)/4)
	if n == 0 {
		if n = e.gatherSlots(ctx); n == 0 {
			return gatherPause, nil
		}
	}
	shares := e.slots.shares(n)
	defer shares.end()
	runs := e.wheel.Take(e.Bound.Now().Add(e.Lead), n, shares)
	e.slots.release(n - len(runs))
	if len(runs) == 0 {
		return e.pauseUntilFree(), nil
	}
	claimed, err := e.claim(ctx, runs, shares)
	e.slots.release(len(runs) - claimed)
	return 0, err
}

// pauseUntilFree is how long a claimer waits that took no runs: if some are ready, their namespaces have their share of
// the slots.
func (e *Engine) pauseUntilFree() time.Duration {
	if e.wheel.Ready() > 0 {
		return gatherPause
	}
	return idlePause
}

// gatherSlots waits a moment and then takes the slots that are free.
func (e *Engine) gatherSlots(ctx context.Context) int {
	e.pauseForSlots(ctx)
	if ctx.Err() != nil {
		return 0
	}
	return e.slots.acquire(e.Batch, 1)
}

// claim claims runs and hands them to the deliverers.
func (e *Engine) claim(ctx context.Context, runs []job.Run, shares *shares) (claimed int, err error) {
	if len(runs) == 0 {
		return 0, nil
	}
	// Not cancelled when the node stops: it must learn whether the claim committed.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementLimit)
	defer cancel()
	session := e.Member.Session()
	attempts, err := e.Claimer.Claim(limited, session, keysOf(runs), e.Lead)
	shares.end()
	if err == nil {
		err = e.decideKeys(limited, pointersTo(attempts))
	}
	if err != nil {
		return e.resolve(ctx, session, runs, err), nil
	}
	claimed = e.handOver(attempts)
	if len(attempts) == len(runs) {
		e.wheel.Started(runs)
		return claimed, nil
	}
	got := claim.Split(runs, keyOf, attempts)
	e.wheel.Started(got.Claimed)
	e.leaveToAdmitters(got.Rest)
	return claimed, nil
}

// decideKeys decides the idempotency keys of runs that have none yet, and stores those that an expression gave. If that
// fails, it is not known which attempts may be delivered.
func (e *Engine) decideKeys(ctx context.Context, claimed []*job.Attempt) error {
	made := slices.DeleteFunc(claimed, func(a *job.Attempt) bool { return !a.MakeKey() })
	if len(made) == 0 {
		return nil
	}
	return e.Claimer.KeepKeys(ctx, made)
}

func pointersTo(attempts []job.Attempt) []*job.Attempt {
	out := make([]*job.Attempt, len(attempts))
	for i := range attempts {
		out[i] = &attempts[i]
	}
	return out
}

// handOver gives claimed attempts to the deliverers and returns how many it gave: each of those keeps its
// slot. It never blocks, because each attempt has one. An attempt that is in flight already is not delivered
// again.
func (e *Engine) handOver(attempts []job.Attempt) int {
	n := 0
	for _, a := range attempts {
		if e.inFlight.add(a) {
			e.slots.start(a.Namespace)
			e.claimed <- a
			n++
		}
	}
	e.stats.claimed.Add(int64(n))
	return n
}

// leaveToAdmitters handles runs that a claim did not take: they need a decision, or are gone.
func (e *Engine) leaveToAdmitters(runs []job.Run) {
	for _, r := range runs {
		switch {
		case !e.Member.Owns(r.Partition):
			e.wheel.Release([]job.Run{r})
		case !e.undecided.offer(e.wheel.Namespace(r.Queue), r): // the admitters are behind, so not immediately again
			e.wheel.ReturnAt(r, e.Bound.Now().Add(e.Lead+wheel.BlockedPause))
		}
	}
}

func keysOf(runs []job.Run) []job.Key {
	keys := make([]job.Key, len(runs))
	for i := range runs {
		keys[i] = runs[i].Key
	}
	return keys
}
