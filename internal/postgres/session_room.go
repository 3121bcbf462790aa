package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	left  int           // sessions that may be opened without counting; 0: the limit was reached
	until time.Duration // by clock.Elapsed
}

// take returns whether a session may be opened without counting, or is refused without counting.
func (s *sessionRoom) take(namespace uuid.UUID) (open, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.of[namespace]
	if !ok || clock.Elapsed() >= r.until {
		return false, false
	}
	if r.left == 0 {
		return false, true
	}
	if r.left--; r.left == 0 {
		delete(s.of, namespace)
	} else {
		s.of[namespace] = r
	}
	return true, false
}

// counted notes how many sessions a namespace may still open.
func (s *sessionRoom) counted(namespace uuid.UUID, free int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) >= maxRooms || s.of == nil {
		s.of = map[uuid.UUID]room{}
	}
	switch left := free / roomShare; {
	case free <= 0:
		s.of[namespace] = room{0, clock.Elapsed() + refusedAge}
	case left > 0:
		s.of[namespace] = room{left, clock.Elapsed() + roomAge}
	default:
		delete(s.of, namespace)
	}
}

// ended has a namespace at its limit be counted again, because one of its sessions has ended.
func (s *sessionRoom) ended(namespace uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[namespace].left == 0 {
		delete(s.of, namespace)
	}
}

// countSessions counts the sessions of a namespace, with and without those that have ended and are not deleted yet.
var countSessions = fmt.Sprintf(`
SELECT count(*) FILTER (WHERE expires_at > '-infinity'), count(*)
FROM (SELECT expires_at FROM session WHERE namespace_id = $1 AND queue_id IS NOT NULL LIMIT %d) s`, 2*job.MaxSessions)

// mayOpen returns job.ErrTooManySessions if the namespace has as many sessions as it may have, or twice as many with
// those that have ended. Sessions that are opened at the same time may exceed that by a few. A session that replaces
// another one is not refused without counting, because the other one has just ended.
func (e *Engine) mayOpen(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, replaces bool) error {
	open, refused := e.room.take(namespace)
	switch {
	case open:
		return nil
	case refused && !replaces:
		return job.ErrTooManySessions
	}
	var live, all int
	if err := tx.QueryRow(ctx, countSessions, namespace).Scan(&live, &all); err != nil {
		return err
	}
	free := min(job.MaxSessions-live, 2*job.MaxSessions-all)
	e.room.counted(namespace, free-1)
	if free <= 0 {
		return job.ErrTooManySessions
	}
	return nil
}
