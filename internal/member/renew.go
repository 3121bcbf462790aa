package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// renewOnce renews the session, or registers a new one if there is none or it has ended.
func (m *Member) renewOnce(ctx context.Context) error {
	m.renewing.Lock()
	defer m.renewing.Unlock()
	if l := m.current.Load().lease; l != nil {
		if l.valid() {
			err := m.renew(ctx, l)
			switch {
			case err == nil && l.valid():
				return nil
			case errors.Is(err, job.ErrSessionExpired):
				m.drop(l, "expired")
			case err != nil && l.valid():
				return err // there is time for another try
			}
		}
		m.drop(l, "not renewed in time")
	}
	if m.draining() || ctx.Err() != nil {
		return ctx.Err()
	}
	return m.register(ctx)
}

// renew asks the database to extend the session. It gives up when trust ends.
func (m *Member) renew(ctx context.Context, l *lease) error {
	ctx, cancel := context.WithTimeout(ctx, min(m.attempt, l.left()))
	defer cancel()
	sent := clock.Elapsed()
	now, err := m.o.Store.Renew(ctx, l.session, m.o.TTL, !m.draining())
	if err != nil {
		return err
	}
	l.until.Store(int64(sent + m.trust))
	m.sample(now)
	return nil
}

// register creates a session with a new id.
func (m *Member) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.attempt)
	defer cancel()
	if m.unresolved {
		// A row that no process uses would be assigned partitions until it expires.
		if err := m.o.Store.Unregister(ctx, m.last); err != nil {
			return err
		}
		m.unresolved = false
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("create a session id: %w", err)
	}
	m.last, m.unresolved = id, true
	sent := clock.Elapsed()
	now, err := m.o.Store.Register(ctx, id, m.o.Name, m.o.TTL)
	if err != nil {
		return err
	}
	l := &lease{session: id}
	l.until.Store(int64(sent + m.trust))
	if !l.valid() {
		return errors.New("the session was registered too slowly")
	}
	m.unresolved = false
	l.ctx, l.end = context.WithCancel(m.open)
	m.sample(now)
	m.mu.Lock()
	m.current.Store(&snapshot{lease: l, epochs: map[int16]int64{}})
	m.mu.Unlock()
	m.o.Log.Info("session registered", "session", id, "name", m.o.Name)
	m.assignNow()
	return nil
}

// sample passes the time of the database clock on to the bound.
func (m *Member) sample(now time.Time) {
	before := m.o.Bound.Jump()
	switch jump := m.o.Bound.Set(now); {
	case jump != 0 && before == 0:
		m.o.Log.Error("database clock jumped, planning stopped", "by", jump)
	case jump == 0 && before != 0:
		m.o.Log.Info("database clock recovered, planning resumed")
	}
}

// assignNow ends the pause of the loop "assign".
func (m *Member) assignNow() {
	select {
	case m.wakeAssign <- struct{}{}:
	default:
	}
}
