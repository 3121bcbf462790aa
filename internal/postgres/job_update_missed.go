package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
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
	gap, suspended, err := u.unserved(ctx)
	if err != nil {
		return 0, err
	}
	skipped, pacedTo, err := u.catchUp(ctx, gap)
	if err != nil || u.state != job.Active || !u.cursor.before(u.now) {
		return skipped, err
	}
	if suspended.broken { // no node could serve the jobs of this cursor
		gap.until = u.now.Add(-job.MissedGrace)
	}
	next, err := u.skipFull(later(u.job.planFrom, *u.cursor.next), suspended)
	if err != nil {
		return skipped, err
	}
	r, err := planAll(job.PlanInput{
		Schedule: u.old.own, Missed: u.old.Missed, NextDue: next, Now: u.now, Until: u.now,
		MissedUntil: gap.until, PacedTo: pacedTo, FullFrom: deref(suspended.fullFrom), FullUntil: deref(suspended.fullUntil),
	})
	u.due, u.skips = r.Due, append(u.skips, r.Skips...)
	return skipped, err
}

// suspension is why plan left a cursor where it is.
type suspension struct {
	broken              bool
	fullFrom, fullUntil *time.Time // see job.PlanInput
}

// skipFull skips what came due from next on in a full namespace, except in the last day, without a count: it may be
// millions. It returns from where on to plan.
func (u *update) skipFull(next time.Time, s suspension) (time.Time, error) {
	if s.fullFrom == nil || u.old.Schedule.At != "" || next.Before(*s.fullFrom) {
		return next, nil
	}
	day := s.fullUntil.Add(-24 * time.Hour)
	if s.fullUntil.After(u.now) { // the clock was set back
		day = u.now.Add(-24 * time.Hour)
	}
	if !next.Before(day) {
		return next, nil
	}
	first, err := job.FirstDue(u.old.own, next.Add(-instant))
	switch {
	case errors.Is(err, schedule.ErrNoMore):
		return day, nil
	case err == nil && first.Before(day):
		u.skips = []job.Skip{{From: first, To: day.Add(-instant), Reason: job.ReasonLiveRuns}}
	}
	return day, err
}

// unserved reads the time in which no node served the job's partition, and whether its cursor was suspended.
func (c *change) unserved(ctx context.Context) (gap unserved, suspended suspension, err error) {
	const read = `
SELECT g.since, g.until, coalesce(c.broken_at IS NOT NULL, false), c.full_from, c.full_until
FROM partition p LEFT JOIN cursor c ON c.partition = $1 AND c.id = $2, LATERAL (` + unservedTime + `) g(since, until)
WHERE p.id = $1`
	var from, until *time.Time
	row := c.tx.QueryRow(ctx, read, c.job.Partition, c.job.cursor)
	err = row.Scan(&from, &until, &suspended.broken, &suspended.fullFrom, &suspended.fullUntil)
	return unserved{deref(from), deref(until)}, suspended, err
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
