package member

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/telemetry"
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
	var loops sync.WaitGroup
	loops.Go(func() { m.loopRenew(ctx) })
	loops.Go(func() { m.loopAssign(ctx) })
	loops.Wait()
	m.drop(m.held.Load().lease, "stopped")
	return nil
}

func (m *Member) loopRenew(ctx context.Context) {
	var trouble telemetry.Trouble
	for ctx.Err() == nil {
		begun := clock.Elapsed()
		if err := m.renewOnce(ctx); err != nil && ctx.Err() == nil {
			trouble.Failed(m.o.Log, "session not renewed", err)
		} else if err == nil && m.Valid() { // a draining member does not make another
			trouble.Worked(m.o.Log, "session renewed again")
		}
		wait := max(begun+m.o.Interval-clock.Elapsed(), m.o.Interval/10)
		if l := m.held.Load().lease; l != nil {
			wait = min(wait, l.left()) // everything is lost when trust ends, not at the next try
		}
		sleep(ctx, wait, nil)
	}
}

func (m *Member) loopAssign(ctx context.Context) {
	var trouble telemetry.Trouble
	for ctx.Err() == nil {
		if _, err := m.assignOnce(ctx); err != nil && ctx.Err() == nil {
			trouble.Failed(m.o.Log, "partitions not assigned", err)
		} else if err == nil && m.Valid() { // without a session nothing was tried
			trouble.Worked(m.o.Log, "partitions assigned again")
		}
		sleep(ctx, time.Duration(m.next.Load())-clock.Elapsed(), m.kick)
	}
}

// sleep waits, at most until ctx ends or there is something to do.
func sleep(ctx context.Context, wait time.Duration, kick <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-kick:
	case <-timer.C:
	}
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
	var trouble telemetry.Trouble
	for {
		// First nobody may think that they are this session's by right, then they are released.
		_, err := m.runOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		trouble.Failed(m.o.Log, "partitions not released", err)
		sleep(ctx, m.o.Interval/hurry, nil)
	}
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
