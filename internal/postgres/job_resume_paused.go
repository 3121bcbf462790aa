package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// resumeLead is how long before the end of a pause Belfry resumes the job, so that nodes know its runs in time. No
// occurrence before the end of the pause runs because of it, and no run starts before that end.
const resumeLead = 2 * time.Second

const findPauseEnds = `
SELECT namespace_id, id FROM job
WHERE paused_until <= now() + $1::interval AND belfry_clock_trusted()
ORDER BY paused_until LIMIT $2`

// ResumePaused resumes up to limit jobs whose pause ends, and returns how many jobs it looked at. A job that cannot be
// resumed does not stop the others.
func (e *Engine) ResumePaused(ctx context.Context, limit int) (int, error) {
	rows, err := e.db.Query(ctx, findPauseEnds, resumeLead, limit)
	if err != nil {
		return 0, err
	}
	type found struct{ Namespace, ID uuid.UUID }
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[found])
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, f := range jobs {
		_, err := e.api.resumeJob(ctx, job.ChangeParams{Namespace: f.Namespace, ID: f.ID}, resumeLead)
		if err != nil && !errors.Is(err, ErrNotFound) {
			failed = append(failed, err)
		}
	}
	return len(jobs), errors.Join(failed...)
}

// pauseEnd returns the last instant of a pause whose end has come, or comes within resumeLead. An occurrence at exactly
// paused_until runs.
//
// If nodes were down at the end of the pause, the cursor may lie between that end and now. Occurrences that it has
// passed and that are late by more than MissedGrace then belong to the pause: no node would decide about them.
func (c *change) pauseEnd() time.Time {
	end := c.job.PausedUntil.Add(-instant)
	passed := c.now.Add(-job.MissedGrace)
	if c.cursor.before(passed) {
		passed = c.cursor.next.Add(-instant)
	}
	return later(end, passed)
}
