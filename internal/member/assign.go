package member

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// Between rounds: an interval, or a fifth of it for some rounds after members
// came or went, while partitions are about to be released to this one.
const (
	hurry   = 5
	hurried = 3 * hurry
	// The least time from the expiry of a session to the round that finds it expired.
	afterExpiry = time.Millisecond
)

// rounds is what a round of assign leaves for the next.
type rounds struct {
	sessions []uuid.UUID // alive and owning, in the last survey
	hurried  int         // rounds that may still be early
}

// assignOnce surveys and makes the table and this member's holding what they
// should be. It returns how many partitions were gained or lost.
func (m *Member) assignOnce(ctx context.Context) (changed int, err error) {
	select {
	case m.assigning <- struct{}{}:
		defer func() { <-m.assigning }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	m.next.Store(int64(clock.Elapsed() + m.o.Interval))
	l := m.held.Load().lease
	if !l.valid() {
		return 0, nil // renew will see to it
	}
	// The round is over when the session is, or, if it may take, when the member drains.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)() //nolint:contextcheck // a second end, not another context for what is called
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
		m.drop(l, "expired")
		return 0, nil
	}
	m.pace(s, d)
	return m.apply(ctx, l, d)
}

func (m *Member) survey(ctx context.Context) (job.Survey, error) {
	ctx, cancel := context.WithTimeout(ctx, m.attempt)
	defer cancel()
	return m.o.Store.Survey(ctx)
}

// apply carries out a decision. Work on a partition ends before it is released.
func (m *Member) apply(ctx context.Context, l *lease, d decision) (changed int, err error) {
	kept := make(map[int16]int64, len(d.keep))
	for _, o := range d.keep {
		kept[o.Partition] = o.Epoch
	}
	changed = m.lose(l, func(p int16, epoch int64) bool { e, ok := kept[p]; return !ok || e != epoch })
	if len(d.release) > 0 {
		if err := m.within(ctx, func(ctx context.Context) error { return m.o.Store.Release(ctx, l.session, d.release) }); err != nil {
			return changed, err
		}
	}
	// In the table this session's, but not in its hands: the answer to taking them was lost.
	held := m.held.Load().epochs
	changed += m.gain(ctx, l, slices.DeleteFunc(d.keep, func(o job.Ownership) bool { _, ok := held[o.Partition]; return ok }))
	for _, from := range d.take {
		if !l.valid() || ctx.Err() != nil {
			break
		}
		var taken []job.Ownership
		if e := m.within(ctx, func(ctx context.Context) (err error) {
			taken, err = m.o.Store.Take(ctx, l.session, from)
			return err
		}); e != nil {
			err = e // the partitions of another owner may be free
			continue
		}
		changed += m.gain(ctx, l, taken)
	}
	return changed, err
}

// within bounds a change of owner: it waits for claims under way.
func (m *Member) within(ctx context.Context, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.trust)
	defer cancel()
	return change(ctx)
}

// pace sets the time of the next round.
func (m *Member) pace(s job.Survey, d decision) {
	now := clock.Elapsed()
	var sessions []uuid.UUID
	for _, session := range s.Sessions {
		if session.Owns {
			sessions = append(sessions, session.ID)
		}
	}
	if !slices.Equal(sessions, m.rounds.sessions) {
		m.rounds.sessions, m.rounds.hurried = sessions, hurried
	}
	wait := m.o.Interval
	if d.awaited && m.rounds.hurried > 0 {
		m.rounds.hurried--
		wait = m.o.Interval / hurry
	}
	// By then at least as much has passed in the database, so the session that was not renewed is dead there.
	if d.expiry > 0 && d.expiry+afterExpiry < wait {
		wait = max(d.expiry+afterExpiry, m.o.Interval/(2*hurry))
	}
	m.next.Store(int64(now + wait))
}
