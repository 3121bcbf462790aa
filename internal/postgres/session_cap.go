package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	sessionCountAge   = time.Second
	maxCountedSpaces  = 10_000 // namespaces that a node remembers
	maxSessionsAtOnce = 2 * access.MaxSessions
)

// sessionCounts remembers for a second how many sessions of workers each namespace has. If each session that is opened
// counted the others, a namespace that opens thousands would slow down the database for all.
type sessionCounts struct {
	mu sync.Mutex
	of map[uuid.UUID]*sessionCount
}

// sessionCount is as of the last count, plus what this node has opened since then.
type sessionCount struct {
	live, all int64         // without and with sessions that have ended and are not deleted yet
	until     time.Duration // by clock.Elapsed
}

const countSessions = `
SELECT count(*) FILTER (WHERE expires_at > '-infinity'), count(*)
FROM (SELECT expires_at FROM session WHERE namespace_id = $1 AND queue_id IS NOT NULL LIMIT $2) s`

// mayOpen returns an access.QuotaError if the namespace has access.MaxSessions, and job.ErrTooManySessions if it has twice
// as many with those that have ended. What nodes open in the same second may exceed that. A session that replaces a live
// one, which this transaction has ended, adds none.
func (s *sessionCounts) mayOpen(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, replaces bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= maxCountedSpaces {
		s.of = map[uuid.UUID]*sessionCount{}
	}
	c := s.of[namespace]
	if c == nil {
		c = &sessionCount{}
		s.of[namespace] = c
	}
	if now := clock.Elapsed(); now >= c.until {
		c.until = now + sessionCountAge // while this caller counts, others use the old count
		s.mu.Unlock()
		var live, all int64
		err := tx.QueryRow(ctx, countSessions, namespace, maxSessionsAtOnce).Scan(&live, &all)
		s.mu.Lock()
		if err != nil {
			c.until = 0
			return err
		}
		c.live, c.all = live, all
	}
	switch {
	case !replaces && c.live >= access.MaxSessions:
		return &access.QuotaError{Quota: access.CapSessions, Used: c.live, Limit: access.MaxSessions, Added: 1}
	case c.all >= maxSessionsAtOnce:
		return job.ErrTooManySessions
	}
	c.all++
	if !replaces {
		c.live++
	}
	return nil
}
