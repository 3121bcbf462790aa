package member

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// The pause between rounds is an interval. After members joined or left, it is a fifth of it for some
// rounds, while other members release partitions to this one.
const (
	fast       = 5
	fastRounds = 3 * fast
	// afterExpiry is how long after the expiry of a session a round finds it expired.
	afterExpiry = time.Millisecond
)

// rounds is what a round of assign leaves for the next.
type rounds struct {
	sessions []uuid.UUID // live candidates for partitions, in the last survey
	fast     int         // rounds that may still follow quickly
}

// assignOnce surveys, and then releases, gains and takes partitions until the table and this member agree
// with the assignment. It returns how many partitions were gained or lost.
func (m *Member) assignOnce(ctx context.Context) (changed int, err error) {
	select {
	case m.assigning <- struct{}{}:
		defer func() { <-m.assigning }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	m.nextAssign.Store(int64(clock.Elapsed() + m.o.Interval))
	l := m.current.Load().lease
	if !l.valid() {
		return 0, nil // renew revives the session, or registers a new one
	}
	// The round ends when the session does. A round that may take also ends when the member drains.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)() //nolint:contextcheck // a second end of ctx, not another context
	draining := m.draining()
	if !draining {
		defer context.AfterFunc(m.intake, cancel)() //nolint:contextcheck // the same
	}
	s, err := m.survey(ctx)
	if err != nil {
		return 0, err
	}
	d := decide(s, l.session, draining)
	if !d.alive {
		m.suspend(l, "expired")
		return 0, nil // renew revives it, or registers a new session
	}
	m.setPace(s, d)
	return m.apply(ctx, l, d)
}

func (m *Member) survey(ctx context.Context) (job.Survey, error) {
	ctx, cancel := context.WithTimeout(ctx, m.attempt)
	defer cancel()
	return m.o.Store.Survey(ctx)
}

// apply carries out a decision. The member loses a partition before it releases it in the table.
func (m *Member) apply(ctx context.Context, l *lease, d decision) (changed int, err error) {
	kept := make(map[int16]int64, len(d.keep))
	for _, o := range d.keep {
		kept[o.Partition] = o.Epoch
	}
	changed = m.lose(l, func(p int16, epoch int64) bool { e, ok := kept[p]; return !ok || e != epoch })
	if len(d.release) > 0 {
		if err := m.changeOwner(ctx, func(ctx context.Context) error {
			return m.o.Store.Release(ctx, l.session, d.release)
		}); err != nil {
			return changed, err
		}
	}
	// The table gives these to the session, but the reply to taking them was lost.
	owned := m.current.Load().epochs
	changed += m.gain(ctx, l, slices.DeleteFunc(d.keep, func(o job.Ownership) bool {
		_, ok := owned[o.Partition]
		return ok
	}))
	for _, from := range d.take {
		if !l.valid() || ctx.Err() != nil {
			break
		}
		var taken []job.Ownership
		if e := m.changeOwner(ctx, func(ctx context.Context) (err error) {
			taken, err = m.o.Store.Take(ctx, l.session, from)
			return err
		}); e != nil {
			err = e // the partitions of another owner may still be free
			continue
		}
		changed += m.gain(ctx, l, taken)
	}
	return changed, err
}

// changeOwner limits the duration of a change of owner, which waits for claims in progress.
func (m *Member) changeOwner(ctx context.Context, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.trust)
	defer cancel()
	return change(ctx)
}

// setPace sets the time of the next round.
func (m *Member) setPace(s job.Survey, d decision) {
	now := clock.Elapsed()
	var sessions []uuid.UUID
	for _, session := range s.Sessions {
		if session.Owns {
			sessions = append(sessions, session.ID)
		}
	}
	if !slices.Equal(sessions, m.rounds.sessions) {
		m.rounds.sessions, m.rounds.fast = sessions, fastRounds
	}
	wait := m.o.Interval
	if d.awaited && m.rounds.fast > 0 {
		m.rounds.fast--
		wait = m.o.Interval / fast
	}
	// By then at least as much time has passed in the database, so a session that was not renewed is dead.
	if d.expiry > 0 && d.expiry+afterExpiry < wait {
		wait = max(d.expiry+afterExpiry, m.o.Interval/(2*fast))
	}
	m.nextAssign.Store(int64(now + wait))
}
