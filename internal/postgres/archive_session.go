package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Begin creates the session of a command that exports days. It is no node and gets no partitions, and its queue does not
// exist, so it is no worker either. If the command dies, nodes end and delete it like the session of a worker.
func (a *Archive) Begin(ctx context.Context, id uuid.UUID, name string, ttl time.Duration) error {
	const begin = `
INSERT INTO session (id, name, started_at, queue_id, renewed_at, may_own, expires_at)
VALUES ($1, $2, now(), 0, now(), false, now() + $3::interval)`
	if _, err := a.db.Exec(ctx, begin, id, name, ttl); err != nil {
		return fmt.Errorf("begin a session: %w", err)
	}
	return nil
}

// Extend moves the expiry of a session that has not expired. It returns ErrSessionExpired otherwise.
func (a *Archive) Extend(ctx context.Context, id uuid.UUID, ttl time.Duration) error {
	const extend = `
UPDATE session SET renewed_at = now(), expires_at = now() + $2::interval, alive = belfry_alive()
WHERE id = $1 AND expires_at > now()`
	tag, err := a.db.Exec(ctx, extend, id, ttl)
	if err != nil {
		return fmt.Errorf("renew a session: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return job.ErrSessionExpired
	}
	return nil
}

// End ends a session. Its days can be taken at once.
func (a *Archive) End(ctx context.Context, id uuid.UUID) error {
	if _, err := a.db.Exec(ctx, `DELETE FROM session WHERE id = $1`, id); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// ClockTrusted reports whether nodes trust the clock of the database. If no node runs, none does.
func (a *Archive) ClockTrusted(ctx context.Context) (ok bool, err error) {
	if err := a.db.QueryRow(ctx, `SELECT belfry_clock_trusted()`).Scan(&ok); err != nil {
		return false, fmt.Errorf("ask whether the clock is trusted: %w", err)
	}
	return ok, nil
}
