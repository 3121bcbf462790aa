package engine

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	sweepPause   = 500 * time.Millisecond
	sweepBack    = time.Minute // woken runs so late are found as overdue
	overduePause = 10 * time.Second
	overdueParts = 6               // of the partitions, one each time
	overdueAfter = 3 * time.Second // pending for so long: somebody should have known
)

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

// Load takes the pending runs of partitions into the wheel. The member calls it
// for partitions that this node has just become the owner of. The owner before
// may still be writing a plan, so they are loaded again a little later.
func (e *Engine) Load(ctx context.Context, partitions []int16) error {
	now := e.Bound.Now()
	e.loads.order(partitions, now.Add(2*time.Second))
	e.loads.order(partitions, now.Add(10*time.Second))
	err := e.load(ctx, partitions, now.Add(e.LookAhead))
	if err != nil {
		e.loads.order(partitions, now)
	}
	return err
}

func (e *Engine) load(ctx context.Context, partitions []int16, until time.Time) error {
	runs, err := e.Planner.Pending(ctx, partitions, until)
	if err != nil {
		return err
	}
	e.wheel.add(runs)
	return nil
}

// loadOnce loads what was ordered.
func (e *Engine) loadOnce(ctx context.Context) (time.Duration, error) {
	partitions := slices.DeleteFunc(e.loads.due(e.Bound.Now()), func(p int16) bool { return !e.Member.Owns(p) })
	if len(partitions) == 0 {
		return planPause, nil
	}
	if err := e.load(ctx, partitions, e.Bound.Now().Add(e.LookAhead)); err != nil {
		e.loads.order(partitions, e.Bound.Now())
		return 0, err
	}
	return planPause, nil
}

// overdueOnce looks for pending runs that are overdue, in some of the
// partitions: what every other way of knowing them may have missed.
func (e *Engine) overdueOnce(ctx context.Context) (time.Duration, error) {
	e.overduePart = (e.overduePart + 1) % overdueParts
	var some []int16
	for _, p := range e.Member.Owned() {
		if int(p)%overdueParts == e.overduePart {
			some = append(some, p)
		}
	}
	if len(some) == 0 {
		return overduePause, nil
	}
	return overduePause, e.load(ctx, some, e.Bound.Now().Add(-overdueAfter))
}

// loads are partitions that are to be loaded at a time.
type loads struct {
	mu     sync.Mutex
	orders []loadOrder
}

type loadOrder struct {
	at         time.Time
	partitions []int16
}

func (l *loads) order(partitions []int16, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = append(l.orders, loadOrder{at, slices.Clone(partitions)})
}

// due removes what is due by now and returns its partitions, each once.
func (l *loads) due(now time.Time) (out []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = slices.DeleteFunc(l.orders, func(o loadOrder) bool {
		if o.at.After(now) {
			return false
		}
		out = append(out, o.partitions...)
		return true
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// Drop forgets the runs of partitions that this node no longer owns.
func (e *Engine) Drop(partitions []int16) { e.wheel.drop(partitions) }
