package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	idlePause = 50 * time.Millisecond // without free slots or anything due
	// parkPause is after how long a run that has to wait is asked about again.
	// The end of the run that it waits for asks earlier.
	parkPause = time.Second
)

// claimOnce claims what is due within the lead, never more than there are free
// slots for.
func (e *Engine) claimOnce(ctx context.Context) (time.Duration, error) {
	if !e.Member.Valid() {
		return idlePause, nil // someone else will
	}
	if err := e.resolve(ctx); err != nil {
		return 0, err
	}
	next, ok := e.wheel.next()
	if !ok {
		return time.Second, nil
	}
	if wait := e.Bound.Until(next) - e.Lead; wait > 0 {
		return min(wait, time.Second), nil
	}
	n := e.slots.acquire(e.Batch)
	if n == 0 {
		return 2 * time.Millisecond, nil
	}
	runs := e.wheel.take(e.Bound.Now().Add(e.Lead), n)
	claimed, err := e.claim(ctx, runs)
	e.slots.release(n - claimed)
	e.wheel.release(runs)
	if len(runs) == 0 {
		return idlePause, err
	}
	return 0, err
}

// claim claims runs and hands them to the deliverers. Of what could not be
// claimed for an error it is not known whether it was.
func (e *Engine) claim(ctx context.Context, runs []job.Run) (claimed int, err error) {
	if len(runs) == 0 {
		return 0, nil
	}
	keys := make([]job.Key, len(runs))
	for i, r := range runs {
		keys[i] = r.Key
	}
	// Not cancelled when the node stops: whether it committed must be known.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyLimit)
	defer cancel()
	session := e.Member.Session()
	attempts, err := e.Claimer.Claim(ctx, session, keys, e.Lead)
	if err != nil {
		e.doubtful(session, runs)
		return 0, err
	}
	for _, a := range attempts {
		e.start(a)
	}
	claimed = len(attempts)
	if claimed == len(runs) {
		return claimed, nil
	}
	got := make(map[job.Key]bool, claimed)
	for _, a := range attempts {
		got[keyOf(a.Key)] = true
	}
	for i, r := range runs {
		if got[keyOf(r.Key)] {
			continue
		}
		n, err := e.admit(ctx, session, r)
		claimed += n
		if err != nil {
			e.doubtful(session, runs[i:])
			return claimed, err
		}
	}
	return claimed, nil
}

// keyOf makes keys comparable: a time has a location, and equal instants must be equal.
func keyOf(k job.Key) job.Key {
	k.DueAt = k.DueAt.UTC()
	return k
}

// admit asks the policy about a run that Claim left.
func (e *Engine) admit(ctx context.Context, session uuid.UUID, r job.Run) (claimed int, err error) {
	if !e.Member.Owns(r.Partition) {
		return 0, nil
	}
	attempt, done, err := e.Claimer.Admit(ctx, session, r.Key, e.Lead)
	switch {
	case err != nil:
		return 0, err
	case attempt != nil:
		e.start(*attempt)
		return 1, nil
	case !done:
		if e.Bound.Until(r.RunAt) > 0 {
			r.RunAt = r.RunAt.Add(e.Lead + slotWidth) // so that it is taken when it is due, and not Lead before
		} else {
			r.RunAt = e.Bound.Now().Add(parkPause)
		}
		e.wheel.add([]job.Run{r})
	}
	return 0, nil
}
