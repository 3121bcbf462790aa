package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/engine/wheel"
	"github.com/belfry-dev/belfry/internal/job"
)

// Limits is the store as the waitlists use it.
type Limits interface {
	// ReportWaiters publishes what waits on this node and returns the capacity of limits.
	ReportWaiters(
		ctx context.Context, session uuid.UUID, limits []job.Limit, waiters []job.WaiterReport,
	) (map[job.Limit]*job.Capacity, error)
	// Reconcile removes permits without a live run, adds those that live runs lack, and moves pending runs to the
	// queue and handler of their job.
	Reconcile(ctx context.Context, partitions []int16) (removed, added int, moved []job.Key, err error)
}

const (
	waitlistBatch  = 500  // runs in one claim
	maxPolled      = 1000 // limits in one statement
	reconcilePause = time.Minute
)

// waitlistsOnce starts waiting runs that get a permit. One loop is enough: a claim takes milliseconds,
// waits for no lock and starts many runs.
func (e *Engine) waitlistsOnce(ctx context.Context) (time.Duration, error) {
	if !e.Member.Valid() || !e.mayClaim() {
		return idlePause, nil
	}
	if err := e.pollLimits(ctx); err != nil {
		return 0, err
	}
	most := min(waitlistBatch, e.slots.left())
	if most == 0 {
		return gatherPause, nil
	}
	shares := e.slots.shares(0)
	defer shares.end()
	runs, wait := e.wheel.TakeWaiting(e.Bound.Now(), most, shares)
	switch {
	case len(runs) == 0 && shares.refused:
		return gatherPause, nil
	case len(runs) == 0:
		return wait, nil
	}
	n := e.slots.acquire(len(runs), 1)
	e.wheel.Return(runs[n:])
	used, accepted := e.admitRuns(ctx, runs[:n], func(
		ctx context.Context, session uuid.UUID,
	) ([]job.Admitted, error) {
		defer shares.end()
		return e.Claimer.AdmitWaiting(ctx, session, runs[:n])
	})
	e.slots.release(n - used)
	e.wheel.RecordClaim(accepted)
	return 0, nil
}

// pollLimits publishes what waits on this node and asks about the limits that were full, every
// wheel.PermitPoll.
func (e *Engine) pollLimits(ctx context.Context) error {
	if clock.Elapsed()-e.limitsPolled < wheel.PermitPoll {
		return nil
	}
	e.limitsPolled = clock.Elapsed()
	full, waiters := e.wheel.Report(maxPolled)
	if len(full) == 0 && len(waiters) == 0 {
		return nil
	}
	for i := range waiters {
		if e.slots.left() == 0 || e.slots.mayStart(e.wheel.Namespace(waiters[i].Queue), 0) == 0 {
			waiters[i].Priority = -1 // other nodes need not give way to runs that could not start
		}
	}
	capacity, err := e.Limits.ReportWaiters(ctx, e.Member.Session(), full, waiters)
	if err != nil {
		return err
	}
	e.wheel.SetCapacity(full, capacity)
	return nil
}

// reconcileOnce compares permits with live runs, which differ only after a limit was set while a node died, and pending
// runs with their jobs, which never differ unless something is wrong.
func (e *Engine) reconcileOnce(ctx context.Context) (time.Duration, error) {
	owned := e.Member.Owned()
	if len(owned) == 0 {
		return reconcilePause, nil
	}
	removed, added, moved, err := e.Limits.Reconcile(ctx, owned)
	if err != nil {
		return 0, err
	}
	if removed+added > 0 {
		e.Log.Warn("permits reconciled", "removed", removed, "added", added)
	}
	if len(moved) > 0 {
		e.Log.Warn("runs reconciled: they were not in the queue or with the handler of their job",
			"runs", len(moved), "first", job.FormatRunID(moved[0]))
		e.stats.misplaced.Add(int64(len(moved)))
	}
	return reconcilePause, nil
}
