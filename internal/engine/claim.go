package engine

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	idlePause = 50 * time.Millisecond // without anything due
	// gatherPause is how long a claimer waits for company where few slots are
	// free: a statement for each run costs 20 times one for a thousand.
	gatherPause = 3 * time.Millisecond
	// parkPause is after how long a run that has to wait is asked about again.
	// The end of the run that it waits for asks earlier.
	parkPause = time.Second
)

// claimOnce claims what is due within the lead, never more than there are free
// slots for.
func (e *Engine) claimOnce(ctx context.Context) (time.Duration, error) {
	if !e.Member.Valid() || !e.mayClaim() {
		return idlePause, nil // someone else will, or a moment later
	}
	next, ok := e.wheel.next()
	if !ok {
		return time.Second, nil
	}
	if wait := e.Bound.Until(next) - e.Lead; wait > 0 {
		return min(wait, time.Second), nil
	}
	n := e.slots.acquire(e.Batch, min(e.Batch, e.Slots)/4)
	if n == 0 {
		if n = e.gather(ctx); n == 0 {
			return gatherPause, nil
		}
	}
	runs := e.wheel.take(e.Bound.Now().Add(e.Lead), n)
	claimed, err := e.claim(ctx, runs)
	e.slots.release(n - claimed)
	if len(runs) == 0 {
		return idlePause, err
	}
	return 0, err
}

// gather waits a moment and then takes what slots there are.
func (e *Engine) gather(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case <-time.After(gatherPause):
		return e.slots.acquire(e.Batch, 1)
	}
}

// claim claims runs and hands them to the deliverers.
func (e *Engine) claim(ctx context.Context, runs []job.Run) (claimed int, err error) {
	if len(runs) == 0 {
		return 0, nil
	}
	// Not cancelled when the node stops: whether it committed must be known.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyLimit)
	defer cancel()
	session := e.Member.Session()
	attempts, err := e.Claimer.Claim(limited, session, keysOf(runs), e.Lead)
	if err != nil {
		return e.doubt(ctx, session, runs, err), nil
	}
	for _, a := range attempts {
		e.claimed <- a // never blocks: as many places as slots
	}
	claimed = len(attempts)
	e.stats.claimed.Add(int64(claimed))
	if claimed == len(runs) {
		e.wheel.release(runs)
		return claimed, nil
	}
	return claimed, e.sift(limited, runs, attempts)
}

// sift sorts out the runs that Claim left: most are gone, some need a decision.
func (e *Engine) sift(ctx context.Context, runs []job.Run, attempts []job.Attempt) error {
	done, left := split(runs, attempts)
	e.wheel.release(done)
	undecided, err := e.Claimer.Undecided(ctx, keysOf(left))
	if err != nil {
		e.wheel.postpone(left)
		return err
	}
	open := make(map[runKey]bool, len(undecided))
	for _, k := range undecided {
		open[keyOf(k)] = true
	}
	for _, r := range left {
		switch {
		case !open[keyOf(r.Key)] || !e.Member.Owns(r.Partition):
			e.wheel.release([]job.Run{r})
		case !e.offer(r): // the admitters are behind: not at once again
			e.wheel.postponeTo(r, e.Bound.Now().Add(e.Lead+parkPause))
		}
	}
	return nil
}

// offer hands a run to the admitters, if they are not behind.
func (e *Engine) offer(r job.Run) bool {
	select {
	case e.undecided <- r:
		return true
	default:
		return false
	}
}

func keysOf(runs []job.Run) []job.Key {
	keys := make([]job.Key, len(runs))
	for i, r := range runs {
		keys[i] = r.Key
	}
	return keys
}

// admit decides about runs that Claim left, one after the other. It is apart
// from claim, so that jobs which need decisions do not hold up the others.
func (e *Engine) admit(ctx context.Context) {
	for r := range e.undecided {
		if !e.admitSlot(ctx) {
			e.wheel.release([]job.Run{r}) // stopping: the next owner will
			continue
		}
		e.slots.release(1 - e.admitOne(ctx, r))
	}
}

// admitSlot waits for a free slot; false when the node stops.
func (e *Engine) admitSlot(ctx context.Context) bool {
	for ctx.Err() == nil {
		if e.slots.acquire(1, 1) == 1 {
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(gatherPause):
		}
	}
	return false
}

// admitOne asks the policy about a run, and says how many were started.
func (e *Engine) admitOne(ctx context.Context, r job.Run) (started int) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyLimit)
	defer cancel()
	session := e.Member.Session()
	admitted, err := e.Claimer.Admit(limited, session, r.Key, e.Lead)
	switch {
	case err != nil:
		return e.doubt(ctx, session, []job.Run{r}, err)
	case admitted.Attempt != nil:
		e.claimed <- *admitted.Attempt
		e.stats.claimed.Add(1)
		e.wheel.release([]job.Run{r})
		return 1
	case admitted.Done:
		e.wheel.release([]job.Run{r})
	case admitted.Refusal != (job.Refusal{}):
		e.wheel.refuse([]job.Run{r}, []job.Refusal{admitted.Refusal}, e.Bound.Now())
	default:
		if e.Bound.Until(r.RunAt) > 0 {
			e.wheel.postponeTo(r, r.RunAt.Add(e.Lead+slotWidth)) // so that it is taken when it is due, and not Lead before
			break
		}
		e.wheel.park(r, e.Bound.Now().Add(parkPause))
	}
	return 0
}
