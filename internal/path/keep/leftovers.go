package keep

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// DropIdempotentResponses removes up to limit responses that are too old, and returns how many it removed.
func (s *Store) DropIdempotentResponses(ctx context.Context, limit int) (int, error) {
	gone, err := s.db.Exec(ctx, `
DELETE FROM idempotent_response WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM idempotent_response
    WHERE created_at < now() - $1::interval AND belfry_clock_trusted()
    ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))`,
		job.KeepResponses, limit)
	if err != nil {
		return 0, fmt.Errorf("drop old responses: %w", err)
	}
	return int(gone.RowsAffected()), nil
}

// DropLogins removes up to limit login sessions that have expired, and returns how many it removed.
func (s *Store) DropLogins(ctx context.Context, limit int) (int, error) {
	gone, err := s.db.Exec(ctx, `
DELETE FROM login_session WHERE expires_at < now() AND id = ANY (ARRAY(
    SELECT id FROM login_session WHERE expires_at < now() AND belfry_clock_trusted()
    ORDER BY expires_at LIMIT $1))`, limit)
	if err != nil {
		return 0, fmt.Errorf("drop expired login sessions: %w", err)
	}
	return int(gone.RowsAffected()), nil
}

const dropStats = `
DELETE FROM stat_minute WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM stat_minute
    WHERE minute AT TIME ZONE 'UTC' < (now() - $1::interval) AT TIME ZONE 'UTC'
    ORDER BY minute AT TIME ZONE 'UTC' LIMIT $2))`

// DropStats removes statistics that are older than keep, up to limit, and returns how many there were.
func (s *Store) DropStats(ctx context.Context, keep time.Duration, limit int) (int, error) {
	tag, err := s.db.Exec(ctx, dropStats, keep, limit)
	if err != nil {
		return 0, fmt.Errorf("drop old statistics: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
