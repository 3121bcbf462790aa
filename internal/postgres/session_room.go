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
	// roomShare is the part of the sessions that a namespace may still open which a node opens without counting again, so
	// that this many nodes together do not exceed the limit.
	roomShare  = 16
	roomAge    = 5 * time.Second // what other nodes open counts after this long
	refusedAge = time.Second     // a namespace at its limit is refused for this long without counting again
	maxRooms   = 10_000          // namespaces
)

// sessionRoom remembers how many sessions of workers each namespace may still open. To count them, the database reads
// each of them: if it did so for each new one, a namespace that opens thousands would slow down all others.
type sessionRoom struct {
	mu sync.Mutex
	of map[uuid.UUID]room
}

type room struct {
	left    int           // sessions that may be opened without counting
	refusal error         // or the limit was reached
	until   time.Duration // by clock.Elapsed
}

// take returns whether a session may be opened without counting, or is refused without counting.
func (s *sessionRoom) take(namespace uuid.UUID) (open bool, refusal error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.of[namespace]
	if !ok || clock.Elapsed() >= r.until {
		return false, nil
	}
	if r.refusal != nil {
		return false, r.refusal
	}
	if r.left--; r.left == 0 {
		delete(s.of, namespace)
	} else {
		s.of[namespace] = r
	}
	return true, nil
}

// counted notes how many sessions a namespace may still open, and why it may open no more.
func (s *sessionRoom) counted(namespace uuid.UUID, free int64, refusal error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) >= maxRooms || s.of == nil {
		s.of = map[uuid.UUID]room{}
	}
	switch left := int(free / roomShare); {
	case refusal != nil:
		s.of[namespace] = room{refusal: refusal, until: clock.Elapsed() + refusedAge}
	case left > 0:
		s.of[namespace] = room{left: left, until: clock.Elapsed() + roomAge}
	default:
		delete(s.of, namespace)
	}
}

// ended has a namespace at its limit be counted again, because one of its sessions has ended.
func (s *sessionRoom) ended(namespace uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[namespace].refusal != nil {
		delete(s.of, namespace)
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
// may exceed that by a few. A session that replaces another one is not refused without counting, because the other one
// has just ended.
func (e *Engine) mayOpen(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, replaces bool) error {
	open, refusal := e.room.take(namespace)
	switch {
	case open:
		return nil
	case refusal != nil && !replaces:
		return refusal
	}
	var most *int64
	var live, all int64
	if err := tx.QueryRow(ctx, countSessions, namespace).Scan(&most, &live, &all); err != nil {
		return err
	}
	if most == nil {
		e.room.counted(namespace, math.MaxInt32, nil)
		return nil
	}
	refusal = nil
	switch {
	case live >= *most:
		refusal = &access.QuotaError{Quota: access.QuotaSessions, Used: live, Limit: *most, Added: 1}
	case all >= 2**most:
		refusal = job.ErrTooManySessions
	}
	e.room.counted(namespace, min(*most-live, 2**most-all)-1, refusal)
	return refusal
}
