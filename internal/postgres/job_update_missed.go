package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// accountForOld accounts for what was due by the old definition: what is not planned, because the cursor is behind or the
// job was paused, and what was planned and missed. It returns how many planned runs it skipped.
func (u *update) accountForOld(ctx context.Context) (skipped int32, err error) {
	switch {
	case u.old == nil:
		return 0, nil
	case u.state == job.Paused:
		u.skips, err = u.skipped(u.old, u.job.planFrom, job.ReasonPaused)
		return 0, err
	}
	gap, broken, err := u.unserved(ctx)
	if err != nil {
		return 0, err
	}
	skipped, pacedTo, err := u.catchUp(ctx, gap)
	if err != nil || u.state != job.Active || !u.cursor.before(u.now) {
		return skipped, err
	}
	if broken { // no node could serve the jobs of this cursor
		gap.until = u.now.Add(-job.MissedGrace)
	}
	r, err := planAll(job.PlanInput{
		Schedule: u.old.own, Missed: u.old.Missed, NextDue: later(u.job.planFrom, *u.cursor.next), Now: u.now,
		Until: u.now, MissedUntil: gap.until, PacedTo: pacedTo,
	})
	u.due, u.skips = r.Due, r.Skips
	return skipped, err
}

// unserved reads the time in which no node served the job's partition, and whether its cursor cannot be planned.
func (c *change) unserved(ctx context.Context) (gap unserved, broken bool, err error) {
	const read = `
SELECT g.since, g.until, (SELECT broken_at IS NOT NULL FROM cursor WHERE partition = $1 AND id = $2)
FROM partition p, LATERAL (` + unservedTime + `) g(since, until)
WHERE p.id = $1`
	var from, until *time.Time
	err = c.tx.QueryRow(ctx, read, c.job.Partition, c.job.cursor).Scan(&from, &until, &broken)
	return unserved{deref(from), deref(until)}, broken, err
}

const missedOfJob = `
SELECT due_at FROM run
WHERE partition = $1 AND job_id = $2 AND due_at >= $3 AND due_at < $4 AND seq = 0
  AND state = 0 /* pending */ AND attempt = 0 AND origin = 0 /* schedule */
ORDER BY due_at`

// catchUp applies the old missed policy to planned runs that were missed. CatchUp, which comes later, would judge them by
// the new schedule. It returns how many are skipped, and when the next caught-up run may start.
func (u *update) catchUp(ctx context.Context, gap unserved) (skipped int32, pacedTo time.Time, err error) {
	if gap.from.IsZero() {
		return 0, pacedTo, nil
	}
	rows, err := u.tx.Query(ctx, missedOfJob, u.job.Partition, u.job.ID, gap.from, gap.until)
	if err != nil {
		return 0, pacedTo, err
	}
	missed := missedJob{jobKey: jobKey{u.job.Partition, u.job.ID}}
	if missed.due, err = pgx.CollectRows(rows, pgx.RowTo[time.Time]); err != nil || len(missed.due) == 0 {
		return 0, pacedTo, err
	}
	old := missedCursor{in: job.MissedInput{
		Schedule: u.old.own, Missed: u.old.Missed, From: gap.from, Until: gap.until, Now: u.now,
	}}
	decide, err := job.CatchUp(old.in)
	if err != nil {
		return 0, pacedTo, err
	}
	c := newCatchUp(u.tx, &job.CatchUpResult{})
	c.now = u.now
	c.collect(&missed, &old, decide(missed.due))
	err = c.write(ctx, time.Time{}) // the owner finds what starts by its sweep
	return c.skipped[u.job.ID], old.pacedTo, err
}
