package member

import (
	"context"
	"errors"
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
		err := m.renew(ctx, l)
		if !errors.Is(err, job.ErrSessionExpired) {
			return err
		}
		m.drop(l, "ended")
	}
	if m.draining() || ctx.Err() != nil {
		return ctx.Err()
	}
	return m.register(ctx)
}

// renew asks the database to extend the session. When trust ends without a renewal, the member loses its partitions and
// keeps asking: until another node has ended the session, it can be renewed, and its attempts in flight go on.
func (m *Member) renew(ctx context.Context, l *lease) error {
	sent := clock.Elapsed()
	now, err := m.askToRenew(ctx, l)
	until := sent + m.trust
	if err == nil && until <= clock.Elapsed() {
		err = errors.New("the session was renewed too slowly")
	}
	if !l.valid() {
		m.suspend(l, "not renewed in time")
	}
	if err != nil {
		return err
	}
	m.sample(ctx, now)
	if l.ctx.Err() == nil {
		l.until.Store(int64(until))
		return nil
	}
	m.trustSession(l.session, until)
	m.o.Log.Info("session revived", "session", l.session)
	return nil
}

// askToRenew gives up when trust ends, so that the partitions are lost in time.
func (m *Member) askToRenew(ctx context.Context, l *lease) (clock.Sample, error) {
	limit := m.attempt
	if left := l.left(); left > 0 {
		limit = min(limit, left)
	} else {
		m.suspend(l, "not renewed in time")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return m.o.Store.Renew(ctx, l.session, m.o.TTL, !m.draining())
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
	id := m.o.Process.NewSession()
	m.last, m.unresolved = id, true
	sent := clock.Elapsed()
	now, err := m.o.Store.Register(ctx, id, m.o.Name, m.o.TTL)
	if err != nil {
		return err
	}
	until := sent + m.trust
	if until <= clock.Elapsed() {
		return errors.New("the session was registered too slowly")
	}
	m.unresolved = false
	m.sample(ctx, now)
	m.trustSession(id, until)
	m.o.Log.Info("session registered", "session", id, "name", m.o.Name)
	return nil
}

// trustSession makes a session that is new or revived the current one. It owns nothing until the next survey.
func (m *Member) trustSession(id uuid.UUID, until time.Duration) {
	l := &lease{session: id}
	l.until.Store(int64(until))
	l.ctx, l.end = context.WithCancel(m.open)
	m.mu.Lock()
	m.current.Store(&snapshot{lease: l, epochs: map[int16]int64{}})
	m.mu.Unlock()
	m.assignNow()
}

// sample passes the time of the database clock on to the bound, and records it if the bound vouches for it. If that
// fails, the next renewal retries it.
func (m *Member) sample(ctx context.Context, now clock.Sample) {
	v := m.o.Bound.Set(now)
	switch {
	case v.Doubt != "" && !m.inDoubt:
		m.o.Log.Error("database clock in doubt, work stopped", "reason", v.Doubt)
	case v.Doubt == "" && m.inDoubt:
		m.o.Log.Info("database clock recovered, work resumed")
	}
	m.inDoubt = v.Doubt != ""
	if v.Vouch && m.o.Clock != nil {
		ctx, cancel := context.WithTimeout(ctx, m.attempt)
		defer cancel()
		if err := m.o.Clock.TrustClock(ctx, now); err != nil {
			m.o.Log.Warn("recording the trusted time failed, will retry", "error", err)
		}
	}
}

// assignNow ends the pause of the loop "assign".
func (m *Member) assignNow() {
	select {
	case m.wakeAssign <- struct{}{}:
	default:
	}
}
