package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// accountForOld accounts for what was due by the old definition: what is not planned, because the cursor is behind or the
// job was paused, and what was planned and missed.
func (u *update) accountForOld(ctx context.Context) (err error) {
	switch {
	case u.old == nil:
		return nil
	case u.state == job.Paused:
		u.skips, err = u.skipped(u.old, u.job.planFrom, job.ReasonPaused)
		return err
	}
	missed, broken, err := u.readGap(ctx)
	if err != nil {
		return err
	}
	pacedTo, err := u.catchUp(ctx, missed)
	if err != nil || u.state != job.Active || !u.cursor.before(u.now) {
		return err
	}
	if broken { // no node could serve the jobs of this cursor
		missed.until = u.now.Add(-job.MissedGrace)
	}
	r, err := planAll(job.PlanInput{
		Schedule: u.old.own, Missed: u.old.Missed, NextDue: store.Later(u.job.planFrom, *u.cursor.next), Now: u.now,
		Until: u.now, MissedUntil: missed.until, PacedTo: pacedTo,
	})
	u.due, u.skips = r.Due, append(u.skips, r.Skips...)
	return err
}

// readGap reads the time in which no node served the job's partition, and whether its cursor could not be planned.
func (c *change) readGap(ctx context.Context) (g gap, broken bool, err error) {
	const read = `
SELECT g.since, g.until, coalesce(c.broken_at IS NOT NULL, false)
FROM partition p LEFT JOIN cursor c ON c.partition = $1 AND c.id = $2, LATERAL (` + gapTime + `) g(since, until)
WHERE p.id = $1`
	var from, until *time.Time
	err = c.tx.QueryRow(ctx, read, c.job.Partition, c.job.cursor).Scan(&from, &until, &broken)
	return gap{store.OrZero(from), store.OrZero(until)}, broken, err
}

const missedOfJob = `
SELECT due_at FROM run
WHERE partition = $1 AND job_id = $2 AND due_at >= $3 AND due_at < $4 AND seq = 0
  AND state = 0 /* pending */ AND attempt = 0 AND origin = 0 /* schedule */
ORDER BY due_at`

// catchUp applies the old missed policy to planned runs that were missed. CatchUp, which comes later, would judge them by
// the new schedule. It returns when the next caught-up run may start.
func (u *update) catchUp(ctx context.Context, g gap) (pacedTo time.Time, err error) {
	if g.from.IsZero() {
		return pacedTo, nil
	}
	rows, err := u.tx.Query(ctx, missedOfJob, u.job.Partition, u.job.ID, g.from, g.until)
	if err != nil {
		return pacedTo, err
	}
	missed := missedJob{jobKey: jobKey{u.job.Partition, u.job.ID}}
	if missed.due, err = pgx.CollectRows(rows, pgx.RowTo[time.Time]); err != nil || len(missed.due) == 0 {
		return pacedTo, err
	}
	decide, err := job.CatchUp(job.MissedInput{
		Schedule: u.old.own, Missed: u.old.Missed, From: g.from, Until: g.until, Now: u.now,
	})
	if err != nil {
		return pacedTo, err
	}
	old := missedCursor{pace: time.Duration(u.old.Missed.Pace)}
	c := newCatchUp(u.tx, &job.CatchUpResult{})
	c.now = u.now
	c.collect(&missed, &old, decide(missed.due))
	err = c.write(ctx, time.Time{}) // the owner finds what starts by its sweep
	return old.pacedTo, err
}
