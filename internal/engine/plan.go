package engine

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	planPause      = time.Second // between looks for what is to be planned
	planPartitions = 64          // in one transaction
	planCursors    = 500
	sweepPause     = 500 * time.Millisecond
	sweepBack      = time.Minute // woken runs so late are found by load
	loadPause      = time.Minute // it reads all runs, and under a held snapshot all that ever were
	rescuePause    = time.Second
	rescueLimit    = 1000
)

// planOnce plans what is due within the look-ahead.
func (e *Engine) planOnce(ctx context.Context) (time.Duration, error) {
	owned := e.Member.Owned()
	if len(owned) == 0 || e.Bound.Jump() != 0 {
		return planPause, nil
	}
	now, next, err := e.Planner.NextDue(ctx, owned)
	if err != nil {
		return 0, err
	}
	if len(next) > 0 && now.Sub(e.Bound.Now()).Abs() > clock.MaxJump {
		return planPause, nil // it has just jumped: the next renewal will tell
	}
	var due []int16
	for p, at := range next {
		if !at.After(now.Add(e.LookAhead)) {
			due = append(due, p)
		}
	}
	if err := e.Load(ctx, e.unsure); err != nil {
		return 0, err
	}
	e.unsure = nil
	for len(due) > 0 && ctx.Err() == nil {
		part := due[:min(len(due), planPartitions)]
		planned, err := e.Planner.Plan(ctx, job.PlanOrder{Partitions: part, LookAhead: e.LookAhead, Cursors: planCursors})
		if err != nil {
			e.unsure = part // it may have committed: what it wrote is not in the wheel
			return 0, err
		}
		if n := len(planned.Broken); n > 0 {
			e.Log.Error("cannot plan", "cursors", n, "first", planned.Broken[0])
			e.stats.broken.Add(int64(n))
		}
		e.wheel.add(planned.Runs)
		e.stats.planned.Add(int64(len(planned.Runs)))
		if !planned.More {
			due = due[len(part):]
		}
	}
	return planPause, nil
}

// sweepOnce finds what others made for this node's partitions.
func (e *Engine) sweepOnce(ctx context.Context) (time.Duration, error) {
	owned, now := e.Member.Owned(), e.Bound.Now()
	if len(owned) == 0 {
		return sweepPause, nil
	}
	runs, err := e.Planner.Woken(ctx, owned, now.Add(-sweepBack), now.Add(e.LookAhead))
	if err != nil {
		return 0, err
	}
	e.wheel.add(runs)
	return sweepPause, nil
}

// loadOnce reads all pending runs that are due soon: what a takeover needs, and
// from time to time what any other way may have missed.
func (e *Engine) loadOnce(ctx context.Context) (time.Duration, error) {
	owned := e.Member.Owned()
	if len(owned) == 0 {
		return planPause, nil
	}
	return loadPause, e.Load(ctx, owned)
}

// Load takes the pending runs of partitions into the wheel. The member calls it
// for partitions that this node has just become the owner of.
func (e *Engine) Load(ctx context.Context, partitions []int16) error {
	if len(partitions) == 0 {
		return nil
	}
	runs, err := e.Planner.Pending(ctx, partitions, e.Bound.Now().Add(e.LookAhead))
	if err != nil {
		return err
	}
	e.wheel.add(runs)
	return nil
}

// Drop forgets the runs of partitions that this node no longer owns.
func (e *Engine) Drop(partitions []int16) { e.wheel.drop(partitions) }

// rescueOnce ends attempts that nobody will report on any more.
func (e *Engine) rescueOnce(ctx context.Context) (time.Duration, error) {
	owned := e.Member.Owned()
	if len(owned) == 0 {
		return rescuePause, nil
	}
	retries, found, err := e.Completer.Rescue(ctx, owned, rescueLimit)
	if err != nil {
		return 0, err
	}
	if found > 0 {
		e.Log.Warn("rescued runs", "found", found, "retries", len(retries))
		e.stats.rescued.Add(int64(found))
	}
	e.wheel.add(retries)
	if found == rescueLimit {
		return 0, nil
	}
	return rescuePause, nil
}
