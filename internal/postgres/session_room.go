package postgres

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	// roomShare: of the sessions that a namespace may still open, a node opens a 16th without counting again, or 16 of
	// them, if that is more. Nodes do not know what others open meanwhile, so each of them may exceed the quota by as
	// many, once in roomAge.
	roomShare = 16
	roomAge   = 5 * time.Second // what other nodes open counts after this long
	fullAge   = time.Second     // what other nodes end counts after this long in a namespace near its limit
	maxRooms  = 10_000          // namespaces
)

// sessionRoom remembers how many sessions of workers each namespace has. To count them, the database reads each of
// them: if it did so for each new one, a namespace that opens thousands would slow down all others.
type sessionRoom struct {
	mu       sync.Mutex
	of       map[uuid.UUID]*room
	counting map[uuid.UUID]chan struct{} // closed when they are counted
}

// sessionCount is how many sessions a namespace has, with those that this node has opened and ended since it counted.
type sessionCount struct {
	most      int64 // its quota
	live, all int64 // without and with those that have ended and are not deleted yet
}

type room struct {
	sessionCount
	liveTo, allTo int64         // from here on, they are counted again
	until         time.Duration // by clock.Elapsed
}

// shareOf returns up to which number a node opens sessions without counting again.
func shareOf(used, most int64) int64 {
	free := max(0, most-used)
	return used + max(free/roomShare, min(free, roomShare))
}

// open notes a new session, or returns why there may be none: see [Engine.mayOpen]. One caller counts the sessions of a
// namespace, while others wait for the result.
func (s *sessionRoom) open(
	ctx context.Context, namespace uuid.UUID, replaces bool, count func() (sessionCount, error),
) error {
	for {
		counted, mine, refusal := s.take(namespace, replaces)
		switch {
		case counted == nil:
			return refusal
		case mine:
			if err := s.count(namespace, replaces, count); err != nil {
				return err
			}
		default:
			select {
			case <-counted:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// take notes a session or returns a refusal, unless the sessions must be counted first: by this caller, or by another
// one that closes counted.
func (s *sessionRoom) take(namespace uuid.UUID, replaces bool) (counted chan struct{}, mine bool, refusal error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.of[namespace]; r != nil && clock.Elapsed() < r.until {
		switch {
		case !replaces && r.live >= r.most:
			return nil, false, &access.QuotaError{Quota: access.QuotaSessions, Used: r.live, Limit: r.most, Added: 1}
		case r.all >= 2*r.most:
			return nil, false, job.ErrTooManySessions
		case r.all < r.allTo && (replaces || r.live < r.liveTo):
			r.all++
			if !replaces {
				r.live++
			}
			return nil, false, nil
		}
	}
	if counted = s.counting[namespace]; counted != nil {
		return counted, false, nil
	}
	if s.counting == nil {
		s.of, s.counting = map[uuid.UUID]*room{}, map[uuid.UUID]chan struct{}{}
	}
	s.counting[namespace] = make(chan struct{})
	return s.counting[namespace], true, nil
}

func (s *sessionRoom) count(namespace uuid.UUID, replaces bool, count func() (sessionCount, error)) error {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.counting[namespace])
		delete(s.counting, namespace)
	}()
	n, err := count()
	if err != nil {
		return err
	}
	if replaces {
		n.live++ // the session that it replaces has ended in this transaction only
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) >= maxRooms {
		clear(s.of)
	}
	r := &room{sessionCount: n, liveTo: shareOf(n.live, n.most), allTo: shareOf(n.all, 2*n.most)}
	r.until = clock.Elapsed() + roomAge
	if r.liveTo >= n.most || r.allTo >= 2*n.most {
		r.until = clock.Elapsed() + fullAge
	}
	s.of[namespace] = r
	return nil
}

// undo notes that a session was not opened after all.
func (s *sessionRoom) undo(namespace uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.of[namespace]; r != nil {
		r.live--
		r.all--
	}
}

// ended notes that a session of the namespace has ended.
func (s *sessionRoom) ended(namespace uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.of[namespace]; r != nil {
		r.live--
	}
}

// countSessions counts the sessions of a namespace that has a quota of them, with and without those that have ended and
// are not deleted yet.
const countSessions = `
SELECT q.most, count(*) FILTER (WHERE s.expires_at > '-infinity'), count(s.expires_at)
FROM (SELECT (SELECT max_sessions FROM namespace WHERE id = $1) AS most) q LEFT JOIN LATERAL (
    SELECT expires_at FROM session WHERE q.most IS NOT NULL AND namespace_id = $1 AND queue_id IS NOT NULL
    LIMIT 2 * q.most) s ON true
GROUP BY q.most`

// mayOpen returns an access.QuotaError if the namespace has as many sessions as its quota allows, and
// job.ErrTooManySessions if it has twice as many with those that have ended. Sessions that are opened at the same time
// may exceed that by a few. A session that replaces a live one, which has just ended, needs none of the quota.
func (e *Engine) mayOpen(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, replaces bool) error {
	return e.room.open(ctx, namespace, replaces, func() (n sessionCount, err error) {
		var most *int64
		if err := tx.QueryRow(ctx, countSessions, namespace).Scan(&most, &n.live, &n.all); err != nil {
			return n, err
		}
		n.most = math.MaxInt32
		if most != nil {
			n.most = *most
		}
		return n, nil
	})
}
