package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	sweepBack    = time.Minute     // runs later than that are found as overdue
	overdueEvery = 20              // sweeps: 10 s by default
	overdueParts = 6               // each round looks at one sixth of the partitions
	overdueAfter = 3 * time.Second // pending for that long: every other way has missed the run
)

// sweepOnce finds runs that others created or changed in the partitions of this node.
func (e *Engine) sweepOnce(ctx context.Context) (time.Duration, error) {
	owned, now := e.Member.Owned(), e.Bound.Now()
	if len(owned) == 0 {
		return e.SweepPause, nil
	}
	runs, err := e.Planner.Sweep(ctx, job.SweepParams{
		Partitions: owned, From: now.Add(-sweepBack), To: now.Add(e.LookAhead),
	})
	if err != nil {
		return 0, err
	}
	e.add(ctx, runs)
	return e.SweepPause, nil
}

// GainPartitions loads the pending runs of partitions that this node has just become the owner of. The
// previous owner can add no more: its plans have ended before, and later ones find that it owns nothing.
func (e *Engine) GainPartitions(ctx context.Context, gained []job.Ownership) {
	partitions := make([]int16, len(gained))
	for i, o := range gained {
		partitions[i] = o.Partition
	}
	now := e.Bound.Now()
	if _, err := e.load(ctx, partitions); err != nil {
		e.loads.add(partitions, now)
		e.Log.Warn("loading runs of gained partitions failed, will retry", "error", err)
	}
}

// DropPartitions forgets the runs of partitions that this node no longer owns.
func (e *Engine) DropPartitions(partitions []int16) { e.wheel.DropPartitions(partitions) }

// loadOnce loads partitions that are to be loaded by now.
func (e *Engine) loadOnce(ctx context.Context) (time.Duration, error) {
	partitions := slices.DeleteFunc(e.loads.due(e.Bound.Now()), func(p int16) bool { return !e.Member.Owns(p) })
	if len(partitions) == 0 {
		return planPause, nil
	}
	switch more, err := e.load(ctx, partitions); {
	case err != nil:
		e.loads.add(partitions, e.Bound.Now())
		return 0, err
	case more:
		return 0, nil
	}
	return planPause, nil
}

// overdueOnce finds overdue pending runs in some of the partitions, which everything else has missed.
func (e *Engine) overdueOnce(ctx context.Context) (time.Duration, error) {
	e.overduePart = (e.overduePart + 1) % overdueParts
	var some []int16
	for _, p := range e.Member.Owned() {
		if int(p)%overdueParts == e.overduePart {
			some = append(some, p)
		}
	}
	pause := overdueEvery * e.SweepPause
	if len(some) == 0 {
		return pause, nil
	}
	runs, err := e.Planner.Pending(ctx, some, e.Bound.Now().Add(-overdueAfter))
	e.add(ctx, runs)
	return pause, err
}

// load adds the pending runs of partitions within the look-ahead to the wheel. Those that were missed are decided first.
// If they are too many for one call, their partitions are loaded again.
func (e *Engine) load(ctx context.Context, partitions []int16) (more bool, err error) {
	c, err := e.Planner.CatchUp(ctx, job.CatchUpParams{
		Session: e.Member.Session(), Partitions: partitions, LookAhead: e.LookAhead,
	})
	if err != nil {
		return false, err
	}
	e.noteOutage(c.Outage)
	if len(c.Left) > 0 {
		e.loads.add(c.Left, e.Bound.Now())
		partitions = slices.DeleteFunc(slices.Clone(partitions), func(p int16) bool { return slices.Contains(c.Left, p) })
	}
	runs, err := e.Planner.Pending(ctx, partitions, e.Bound.Now().Add(e.LookAhead))
	if err != nil {
		return false, err
	}
	e.add(ctx, runs)
	return len(c.Left) > 0, nil
}

// loads is partitions that are to be loaded at a time.
type loads struct {
	mu   sync.Mutex
	list []plannedLoad
}

type plannedLoad struct {
	at         time.Time
	partitions []int16
}

func (l *loads) add(partitions []int16, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, plannedLoad{at, slices.Clone(partitions)})
}

// due removes the loads that are due by now and returns their partitions, each once.
func (l *loads) due(now time.Time) (out []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(p plannedLoad) bool {
		if p.at.After(now) {
			return false
		}
		out = append(out, p.partitions...)
		return true
	})
	slices.Sort(out)
	return slices.Compact(out)
}
