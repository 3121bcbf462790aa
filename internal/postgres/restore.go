package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// attemptStep is how many attempt numbers a target may receive for one run between two restores; attempts that are
// deferred count too. attemptLimit leaves numbers below job's limits, which keep them from overflowing.
const (
	attemptStep  = 250
	attemptLimit = 25_000
)

// trust moves the mark of the clock to now, in a transaction that has locked the row of cluster. This is where a restore
// is noticed: the mark of a restored database is old, and until a transaction like this has moved it, no statement plans
// or claims anything.
func (l auditLog) trust(ctx context.Context, tx pgx.Tx) (s clock.Sample, r *job.Restore, err error) {
	var before, now clock.Server
	row := tx.QueryRow(ctx, `
SELECT `+readSample+`, trusted_system, trusted_timeline, belfry_system(), belfry_timeline() FROM cluster WHERE only_row`)
	if s, err = scanSample(row, &before.System, &before.Timeline, &now.System, &now.Timeline); err != nil {
		return s, nil, err
	}
	const move = `UPDATE cluster SET trusted_at = now(), trusted_system = $1, trusted_timeline = $2`
	if _, err := tx.Exec(ctx, move, now.System, now.Timeline); err != nil {
		return s, nil, err
	}
	switch {
	case clock.Restored(before, now, s):
		r = &job.Restore{From: s.Mark, Until: s.Now}
		return s, r, l.hold(ctx, tx, before, now, s)
	case !s.Mark.IsZero():
		_, err = tx.Exec(ctx, missedSince, s.Mark)
	}
	return s, nil, err
}

// holdRuns holds what is due before now, also if a part of an earlier restore was accepted. The attempt numbers
// continue above any that was handed out before: each restore begins a timeline that no earlier one had, also if the
// same backup is restored twice. Timelines begin at 1 again if a dump is restored.
const holdRuns = `
UPDATE cluster SET restored_from = CASE WHEN held_from < held_until
        THEN least(greatest(restored_from, held_from), $1) ELSE $1 END,
    restored_until = now(), held_from = '-infinity', held_until = now(),
    attempt_base = least($4, greatest(attempt_base + $3, $3 * ($2::bigint - 1)))`

// disown makes no node the owner of any partition, with epochs above all that were handed out: owners change less often
// than once per millisecond. The forgotten time was served, so it is not missed.
const disown = `
UPDATE partition SET owner = NULL, epoch = greatest(epoch, (extract(epoch FROM now()) * 1000)::bigint) + 1,
    served_until = now(), missed_from = NULL, missed_until = NULL`

// hold records that the database was restored from a backup of the time s.Mark. The audit log of the default namespace
// names the fork.
func (l auditLog) hold(ctx context.Context, tx pgx.Tx, before, now clock.Server, s clock.Sample) error {
	if _, err := tx.Exec(ctx, holdRuns, s.Mark, now.Timeline, attemptStep, attemptLimit); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, disown); err != nil {
		return err
	}
	if err := pool.Enter(ctx, tx, pool.In(access.DefaultNamespace)); err != nil {
		return err
	}
	return l.write(ctx, tx, auditParams{access.DefaultNamespace, itself, "database.restore", "database"}, struct {
		From   time.Time    `json:"from"`
		Until  time.Time    `json:"until"`
		Before clock.Server `json:"before"`
		Now    clock.Server `json:"now"`
	}{s.Mark, s.Now, before, now})
}

// readRestore reads the last restore.
const readRestore = `
SELECT restored_from, restored_until, nullif(held_from, '-infinity') FROM cluster WHERE only_row`

func scanRestore(row pgx.Row) (r job.Restore, err error) {
	var from, until, held *time.Time
	err = row.Scan(&from, &until, &held)
	r.From, r.Until, r.HeldFrom = deref(from).UTC(), deref(until).UTC(), deref(held).UTC()
	return r, err
}

// maxHeldListed is how many jobs a list shows.
const maxHeldListed = 1000

// unaccepted is a condition on cursor_skip: plan skipped it because of the restore from $1 that was noticed at $2, or
// because of an earlier one that was not accepted when this one was noticed.
const unaccepted = `reason = 'restored' AND created_at >= $1 AND (created_at >= $2 OR to_due >= $1)`

// unacceptedFrom is the first occurrence of cursor_skip that is not accepted.
const unacceptedFrom = `CASE WHEN created_at >= $2 THEN from_due ELSE greatest(from_due, $1) END`

// wholly is a condition on cursor_skip: none of it is accepted, and all of it is before $4.
const wholly = `from_due >= $3 AND from_due = ` + unacceptedFrom + ` AND to_due < $4`

// heldOccurrences lists what is held by job: pending runs, and what plan has skipped. Of skips that are held in part,
// it lists where that part begins and ends.
const heldOccurrences = `
SELECT n.name, j.name, x.first, x.last, x.count, x.part_from, x.part_to, x.planned, x.schedule, x.missed
FROM (SELECT partition, job_id, min(due_at) AS first, max(due_at) AS last, count(*) AS count,
             NULL::timestamptz[] AS part_from, NULL::timestamptz[] AS part_to, true AS planned, '' AS schedule, '' AS missed
      FROM run WHERE state = 0 /* pending */ AND due_at >= $3 AND due_at < $4
      GROUP BY partition, job_id
      UNION ALL
      SELECT s.partition, j.id, greatest(s.first, $3), least(s.last, $4), s.count, s.part_from, s.part_to, false,
             c.schedule, c.missed
      FROM (SELECT partition, cursor_id, min(` + unacceptedFrom + `) AS first, max(to_due) AS last,
                   coalesce(sum(count) FILTER (WHERE ` + wholly + `), 0)::bigint AS count,
                   array_agg(greatest(` + unacceptedFrom + `, $3)) FILTER (WHERE NOT (` + wholly + `)) AS part_from,
                   array_agg(least(to_due + interval '1 us', $4)) FILTER (WHERE NOT (` + wholly + `)) AS part_to
            FROM cursor_skip WHERE ` + unaccepted + ` AND from_due < $4 AND to_due >= $3
            GROUP BY partition, cursor_id) s
      JOIN cursor c ON c.partition = s.partition AND c.id = s.cursor_id
      JOIN job j ON j.partition = s.partition AND j.cursor_id = s.cursor_id AND j.plan_from <= s.last
        AND j.state IN (1 /* active */, 3 /* finished */)) x
JOIN job j ON j.partition = x.partition AND j.id = x.job_id JOIN namespace n ON n.id = j.namespace_id
ORDER BY x.first, j.id LIMIT $5`

// Restore returns the last restore of the database, and what of it is held up to an instant; zero: all.
func (a *Admin) Restore(ctx context.Context, to time.Time) (r job.Restore, err error) {
	if r, err = scanRestore(a.db.QueryRow(ctx, readRestore)); err != nil {
		return r, fmt.Errorf("read the last restore: %w", err)
	}
	if !r.Held() {
		return r, nil
	}
	if to.IsZero() {
		to = r.Until
	}
	rows, err := a.db.Query(ctx, heldOccurrences, r.From, r.Until, r.HeldFrom, to, maxHeldListed+1)
	if err == nil {
		r.Occurrences, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (job.HeldOccurrences, error) {
			return a.scanHeld(row, r.Until, to)
		})
	}
	if err != nil {
		return r, fmt.Errorf("list what a restore holds: %w", err)
	}
	if r.More = len(r.Occurrences) > maxHeldListed; r.More {
		r.Occurrences = r.Occurrences[:maxHeldListed]
	}
	return r, nil
}

// scanHeld also counts the occurrences that the missed policy would run, of those that plan has skipped.
func (a *Admin) scanHeld(row pgx.CollectableRow, now, to time.Time) (o job.HeldOccurrences, err error) {
	var text, missed string
	var from, until []time.Time
	err = row.Scan(&o.Namespace, &o.Job, &o.From, &o.To, &o.Count, &from, &until, &o.Planned, &text, &missed)
	o.From, o.To = o.From.UTC(), o.To.UTC()
	if err != nil || o.Planned {
		return o, err
	}
	for i := range from {
		n, err := a.skippedBetween(from[i], until[i], text, missed)
		if err != nil {
			return o, err
		}
		o.Count += n
	}
	due, err := a.missedBefore(o.From, to, now, text, missed)
	o.Runs = int64(len(due))
	return o, err
}

// skippedBetween counts the occurrences of a schedule in [from, until) that plan skips after a restore.
func (a *Admin) skippedBetween(from, until time.Time, text, missed string) (n int64, err error) {
	in := job.PlanInput{NextDue: from, Now: until, Until: until.Add(-instant), RestoredUntil: until}
	if in.Schedule, in.Missed, err = a.api.schedules.read(text, missed); err != nil {
		return 0, err
	}
	result, err := planAll(in)
	for _, s := range result.Skips {
		if s.Reason == job.ReasonRestored {
			n += s.Count
		}
	}
	return n, err
}

// BackupDone records that a backup of the database has ended now.
func (a *Admin) BackupDone(ctx context.Context) (at time.Time, err error) {
	if err := a.db.QueryRow(ctx, `UPDATE cluster SET backed_up_at = now() RETURNING now()`).Scan(&at); err != nil {
		return at, fmt.Errorf("record a backup: %w", err)
	}
	return at.UTC(), nil
}
