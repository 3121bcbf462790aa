package member

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/loop"
)

// Run takes part until ctx ends, which is as if the process had died, or Close
// is called. A member runs once.
func (m *Member) Run(ctx context.Context) error {
	if !m.started.CompareAndSwap(false, true) {
		return errors.New("member: it was run before")
	}
	defer close(m.stopped)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.open, cancel)() //nolint:contextcheck // a second end, not another context for what is called
	loop.Group{
		{
			Name: "renew", Title: "session renewal", Once: m.renewRound,
			Backoff: loop.Backoff{Off: true}, Ready: m.Valid, Log: m.o.Log,
		},
		{
			Name: "assign", Title: "partition assignment", Once: m.assignRound, Wake: m.kick,
			Backoff: loop.Backoff{Off: true}, Ready: m.Valid, Log: m.o.Log,
		},
	}.Run(ctx)
	m.drop(m.held.Load().lease, "stopped")
	return nil
}

// renewRound is one round of the loop "renew". Its pause never outlasts the trust in the session:
// when that ends, the member loses everything at once and not an interval later.
func (m *Member) renewRound(ctx context.Context) (time.Duration, error) {
	begun := clock.Elapsed()
	err := m.renewOnce(ctx)
	pause := max(begun+m.o.Interval-clock.Elapsed(), m.o.Interval/10)
	if l := m.held.Load().lease; l != nil {
		pause = min(pause, l.left())
	}
	return pause, err
}

// assignRound is one round of the loop "assign".
func (m *Member) assignRound(ctx context.Context) (time.Duration, error) {
	_, err := m.assignOnce(ctx)
	return time.Duration(m.next.Load()) - clock.Elapsed(), err
}

// runOnce is one round of both loops.
func (m *Member) runOnce(ctx context.Context) (changed int, err error) {
	if err := m.renewOnce(ctx); err != nil {
		return 0, err
	}
	return m.assignOnce(ctx)
}

// Drain gives up all partitions for good: everything is lost when it returns,
// also if it fails. The session lives on, for the runs that are under way, until
// Close. It tries until ctx ends or the session is over, and Run goes on trying.
func (m *Member) Drain(ctx context.Context) error {
	m.drain()
	m.lose(m.held.Load().lease, func(int16, int64) bool { return true })
	var released bool
	var last error
	loop.Loop{
		Name: "drain", Title: "partition release", Log: m.o.Log,
		Backoff: loop.Backoff{Min: m.o.Interval / hurry, Max: m.o.Interval / hurry},
		Once: func(ctx context.Context) (time.Duration, error) {
			// Renew first: the session then no longer claims to own anything, so no survey assigns it
			// a partition that is about to be released.
			if _, last = m.runOnce(ctx); last != nil {
				return 0, last
			}
			released = true
			return 0, loop.ErrDone
		},
	}.Run(ctx)
	if released {
		return nil
	}
	return cmp.Or(last, ctx.Err())
}

// Close ends the session and the loops. What the session still owned is free.
func (m *Member) Close(ctx context.Context) error {
	m.drain()
	m.close()
	if m.started.Load() {
		select {
		case <-m.stopped:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.drop(m.held.Load().lease, "closed")
	m.renewing.Lock()
	defer m.renewing.Unlock()
	if m.last == uuid.Nil {
		return nil
	}
	return m.o.Store.Unregister(ctx, m.last)
}
