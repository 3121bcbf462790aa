package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
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

// holdRuns holds what is due before now. What an earlier restore holds stays forgotten from its time on. The attempt
// numbers continue above any that was handed out before: each restore begins a timeline that no earlier one had, also if the
// same backup is restored twice. Timelines begin at 1 again if a dump is restored.
const holdRuns = `
UPDATE cluster SET restored_from = CASE WHEN held_until > '-infinity' THEN least(restored_from, $1) ELSE $1 END,
    restored_until = now(), held_until = now(),
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
	if err := store.Enter(ctx, tx, store.In(access.DefaultNamespace)); err != nil {
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
SELECT restored_from, restored_until, held_until > '-infinity' FROM cluster WHERE only_row`

func scanRestore(row pgx.Row) (r job.Restore, err error) {
	var from, until *time.Time
	err = row.Scan(&from, &until, &r.Held)
	r.From, r.Until = store.OrZero(from).UTC(), store.OrZero(until).UTC()
	return r, err
}

// maxHeldListed is how many jobs a list shows.
const maxHeldListed = 1000

// unaccepted is a condition on cursor_skip: plan skipped it because of the restore from $1, or because of a later one
// that was noticed while this one was held.
const unaccepted = `reason = 'restored' AND created_at >= $1`

// heldOccurrences lists what is held by job: pending runs, and what plan has skipped.
const heldOccurrences = `
SELECT n.name, j.name, x.first, x.last, x.count, x.planned, x.schedule, x.missed
FROM (SELECT partition, job_id, min(due_at) AS first, max(due_at) AS last, count(*) AS count, true AS planned,
             '' AS schedule, '' AS missed
      FROM run WHERE state = 0 /* pending */ AND due_at < $2
      GROUP BY partition, job_id
      UNION ALL
      SELECT s.partition, j.id, s.first, s.last, s.count, false, c.schedule, c.missed
      FROM (SELECT partition, cursor_id, min(from_due) AS first, max(to_due) AS last, sum(count)::bigint AS count
            FROM cursor_skip WHERE ` + unaccepted + `
            GROUP BY partition, cursor_id) s
      JOIN cursor c ON c.partition = s.partition AND c.id = s.cursor_id
      JOIN job j ON j.partition = s.partition AND j.cursor_id = s.cursor_id AND j.plan_from <= s.last
        AND j.state IN (1 /* active */, 3 /* finished */)) x
JOIN job j ON j.partition = x.partition AND j.id = x.job_id JOIN namespace n ON n.id = j.namespace_id
ORDER BY x.first, j.id LIMIT $3`

// Restore returns the last restore of the database, and what of it is held.
func (a *Admin) Restore(ctx context.Context) (r job.Restore, err error) {
	if r, err = scanRestore(a.db.QueryRow(ctx, readRestore)); err != nil {
		return r, fmt.Errorf("read the last restore: %w", err)
	}
	if !r.Held {
		return r, nil
	}
	rows, err := a.db.Query(ctx, heldOccurrences, r.From, r.Until, maxHeldListed+1)
	if err == nil {
		r.Occurrences, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (job.HeldOccurrences, error) {
			return a.scanHeld(row, r.Until)
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

// scanHeld also counts the occurrences that the missed policy would run: at most as many as plan has skipped, because nodes
// worked between two restores.
func (a *Admin) scanHeld(row pgx.CollectableRow, until time.Time) (o job.HeldOccurrences, err error) {
	var text, missed string
	err = row.Scan(&o.Namespace, &o.Job, &o.From, &o.To, &o.Count, &o.Planned, &text, &missed)
	o.From, o.To = o.From.UTC(), o.To.UTC()
	if err != nil || o.Planned {
		return o, err
	}
	due, err := a.missedBefore(o.From, until, until, text, missed)
	o.Runs = min(int64(len(due)), o.Count)
	return o, err
}

// BackupDone records that a backup of the database has ended now.
func (a *Admin) BackupDone(ctx context.Context) (at time.Time, err error) {
	if err := a.db.QueryRow(ctx, `UPDATE cluster SET backed_up_at = now() RETURNING now()`).Scan(&at); err != nil {
		return at, fmt.Errorf("record a backup: %w", err)
	}
	return at.UTC(), nil
}
