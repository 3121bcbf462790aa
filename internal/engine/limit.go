package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// Limits is the store, as what falls under limits sees it.
type Limits interface {
	// ClaimLimited claims runs that get a place, and says why others do not.
	ClaimLimited(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, []job.Refused, error)
	// Places says what waits here for queues and tells what room there is.
	Places(ctx context.Context, session uuid.UUID, limits []job.Limit, lanes []job.WaiterReport) (map[job.Limit]*job.Capacity, error)
	// MendHolds makes the places that are taken those of the live runs again.
	MendHolds(ctx context.Context, partitions []int16) (removed, added int, err error)
}

const (
	laneBatch = 200 // runs in one claim
	// placePause is how long a place that another node's run has left may stay
	// empty while runs wait here.
	placePause = 250 * time.Millisecond
	maxAsked   = 1000 // limits in one statement
	mendPause  = time.Minute
)

// lanesOnce starts what waits in lanes and finds a place. There is one such loop:
// a claim takes milliseconds, waits for no lock and starts many.
func (e *Engine) lanesOnce(ctx context.Context) (time.Duration, error) {
	if e.Limits == nil {
		return time.Hour, nil
	}
	if !e.Member.Valid() || !e.mayClaim() {
		return idlePause, nil
	}
	if err := e.askPlaces(ctx); err != nil {
		return 0, err
	}
	most := min(laneBatch, e.slots.left())
	if most == 0 {
		return gatherPause, nil
	}
	runs, wait := e.wheel.takeLanes(e.Bound.Now(), most)
	if len(runs) == 0 {
		return wait, nil
	}
	n := e.slots.acquire(len(runs), 1)
	e.wheel.postpone(runs[n:])
	claimed, err := e.claimLimited(ctx, runs[:n])
	e.slots.release(n - claimed)
	return 0, err
}

// askPlaces says what waits here and asks about the limits that were full, now and then.
func (e *Engine) askPlaces(ctx context.Context) error {
	if clock.Elapsed()-e.lanesAsked < placePause {
		return nil
	}
	e.lanesAsked = clock.Elapsed()
	ask, waits := e.wheel.waiting(maxAsked)
	if len(ask) == 0 && len(waits) == 0 {
		return nil
	}
	if e.slots.left() == 0 {
		for i := range waits {
			waits[i].Priority = -1 // nobody need wait for what could not start
		}
	}
	rooms, err := e.Limits.Places(ctx, e.Member.Session(), ask, waits)
	if err != nil {
		return err
	}
	e.wheel.answer(ask, rooms)
	return nil
}

// claimLimited claims runs of lanes and hands them to the deliverers.
func (e *Engine) claimLimited(ctx context.Context, runs []job.Run) (claimed int, err error) {
	if len(runs) == 0 {
		return 0, nil
	}
	// Not cancelled when the node stops: whether it committed must be known.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyLimit)
	defer cancel()
	session := e.Member.Session()
	attempts, refused, err := e.Limits.ClaimLimited(limited, session, keysOf(runs))
	if err != nil {
		return e.doubt(ctx, session, runs, err), nil
	}
	for _, a := range attempts {
		e.claimed <- a
	}
	e.stats.claimed.Add(int64(len(attempts)))
	started, left := split(runs, attempts)
	e.wheel.release(started)
	rest := e.refused(left, refused)
	e.wheel.tried(started, rest, e.Bound.Now())
	if len(rest) == 0 {
		return len(attempts), nil
	}
	return len(attempts), e.sift(limited, rest, nil)
}

// refused gives runs that found no place back to their lanes, and returns the others.
func (e *Engine) refused(runs []job.Run, refused []job.Refused) (rest []job.Run) {
	why := make(map[runKey]job.Refusal, len(refused))
	for _, r := range refused {
		why[keyOf(r.Key)] = r.Refusal
	}
	var back []job.Run
	var reasons []job.Refusal
	for _, r := range runs {
		if w, ok := why[keyOf(r.Key)]; ok {
			back, reasons = append(back, r), append(reasons, w)
		} else {
			rest = append(rest, r)
		}
	}
	e.wheel.refuse(back, reasons, e.Bound.Now())
	return rest
}

// mendOnce looks once in a while whether the places that are taken are those of live runs.
func (e *Engine) mendOnce(ctx context.Context) (time.Duration, error) {
	owned := e.Member.Owned()
	if e.Limits == nil || len(owned) == 0 {
		return mendPause, nil
	}
	removed, added, err := e.Limits.MendHolds(ctx, owned)
	if err != nil {
		return 0, err
	}
	if removed+added > 0 {
		e.Log.Warn("places under limits mended", "removed", removed, "added", added)
		e.stats.mended.Add(int64(removed + added))
	}
	return mendPause, nil
}
