package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// maxRemembered is for how many runs a node remembers whose they were. It takes much less than the look-ahead to plan
// this many, and a namespace waits for others no longer.
const maxRemembered = 10 * job.PlanRuns

// planTurns counts what was planned for each namespace lately. While there is more to plan than one transaction takes,
// namespaces that had less come first. Then a small one never waits for a large one, and large ones get equal parts.
//
// The cursor before which a transaction stopped comes first in the next one. A cursor with many jobs is planned alone,
// and would wait for ever if each transaction had something of others.
type planTurns struct {
	mu      sync.Mutex
	amounts map[uuid.UUID]int
	sum     int
	stopped map[cursorID]bool
}

// cursorID names a cursor.
type cursorID struct {
	partition int16
	id        int64
}

// maxStopped is how many cursors are remembered before which a transaction stopped. A cursor may be deleted, or belong
// to another node, before its turn comes.
const maxStopped = 1000

func (p *planTurns) stopBefore(c *dueCursor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped == nil || len(p.stopped) >= maxStopped {
		p.stopped = map[cursorID]bool{}
	}
	p.stopped[c.key()] = true
}

// add counts runs, or a cursor, which costs something even if it has no run.
func (p *planTurns) add(namespace uuid.UUID, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.amounts == nil {
		p.amounts = map[uuid.UUID]int{}
	}
	p.amounts[namespace] += n
	p.sum += n
	for p.sum > maxRemembered {
		p.sum = 0
		for namespace, n := range p.amounts {
			if n /= 2; n == 0 {
				delete(p.amounts, namespace)
				continue
			}
			p.amounts[namespace] = n
			p.sum += n
		}
	}
}

// order sets the turn of each cursor: those with a lower one come first. It forgets those before which a transaction
// stopped.
func (p *planTurns) order(cursors []dueCursor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range cursors {
		c := &cursors[i]
		c.turn = p.amounts[c.namespace]
		if p.stopped[c.key()] {
			c.turn = -1
			delete(p.stopped, c.key())
		}
	}
}

// addTurns adds the first cursors of each namespace that is not full and has only some among those that were read. Other
// statements read a bounded number of cursors in the order of their time, so one namespace with many late cursors would
// hide those of all others.
func (p *planBound) addTurns(
	ctx context.Context, cursors []dueCursor, in job.PlanParams, until time.Time,
) ([]dueCursor, error) {
	some := max(in.Cursors/5, 1)
	leaveOut := append([]uuid.UUID{}, in.Full...)
	of := map[uuid.UUID]int{}
	for i := range cursors {
		namespace := cursors[i].namespace
		if of[namespace]++; of[namespace] == some {
			leaveOut = append(leaveOut, namespace)
		}
	}
	from := slices.MinFunc(p.engine.cursors.after(in.Partitions, time.Time{}).from, time.Time.Compare)
	first, err := dueCursors(ctx, p.tx, planCursorsTurns, in.Partitions, until, 2*in.Cursors, some, leaveOut, from)
	if err != nil {
		return nil, err
	}
	known := map[cursorID]bool{}
	for i := range cursors {
		known[cursors[i].key()] = true
	}
	return append(cursors, slices.DeleteFunc(first, func(c dueCursor) bool { return known[c.key()] })...), nil
}
