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

// Run runs the member until ctx is done or Close is called. Ending ctx is like the death of the process:
// the session is left to expire. A member runs only once.
func (m *Member) Run(ctx context.Context) error {
	if !m.started.CompareAndSwap(false, true) {
		return errors.New("member: Run was called before")
	}
	defer close(m.stopped)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.open, cancel)() //nolint:contextcheck // a second end of ctx, not another context
	loops := loop.Group{
		{Name: "renew", Title: "session renewal", Once: m.renewRound},
		{Name: "assign", Title: "partition assignment", Once: m.assignRound, Wake: m.wakeAssign},
	}
	for i := range loops {
		loops[i].Backoff.Off = true // both keep their pace, because the session does not wait
		loops[i].Ready, loops[i].Log, loops[i].OnRound = m.Valid, m.o.Log, m.o.OnRound
	}
	loops.Run(ctx)
	m.drop(m.current.Load().lease, "stopped")
	return nil
}

// renewRound is one round of the loop "renew". Its pause never outlasts the trust in the session:
// when that ends, the member loses everything immediately, not an interval later.
func (m *Member) renewRound(ctx context.Context) (time.Duration, error) {
	begun := clock.Elapsed()
	err := m.renewOnce(ctx)
	pause := max(begun+m.o.Interval-clock.Elapsed(), m.o.Interval/10)
	if l := m.current.Load().lease; l.valid() {
		pause = max(0, min(pause, l.left())) // it may end meanwhile
	}
	return pause, err
}

// assignRound is one round of the loop "assign". A round that failed may have taken longer than the interval.
func (m *Member) assignRound(ctx context.Context) (time.Duration, error) {
	_, err := m.assignOnce(ctx)
	pause := time.Duration(m.nextAssign.Load()) - clock.Elapsed()
	if err != nil {
		pause = max(pause, m.o.Interval/10)
	}
	return pause, err
}

// runOnce is one round of both loops.
func (m *Member) runOnce(ctx context.Context) (changed int, err error) {
	if err := m.renewOnce(ctx); err != nil {
		return 0, err
	}
	return m.assignOnce(ctx)
}

// Drain gives up all partitions permanently: they are lost when it returns, even if it fails. The session
// lives on until Close, for the runs in flight. Drain retries to release the partitions in the database
// until ctx is done or the session has ended. After that, Run retries.
func (m *Member) Drain(ctx context.Context) error {
	m.drain()
	m.lose(m.current.Load().lease, func(int16, int64) bool { return true })
	var released bool
	var last error
	loop.Loop{
		Name: "drain", Title: "partition release", Log: m.o.Log,
		Backoff: loop.Backoff{Min: m.o.Interval / fast, Max: m.o.Interval / fast},
		Once: func(ctx context.Context) (time.Duration, error) {
			// Renew first: the session is then no longer a candidate for partitions, and the survey that
			// follows releases them.
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

// Close ends the session and the loops. Partitions that the session still owned become free.
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
	m.drop(m.current.Load().lease, "closed")
	m.renewing.Lock()
	defer m.renewing.Unlock()
	if m.last == uuid.Nil {
		return nil
	}
	return m.o.Store.Unregister(ctx, m.last)
}
