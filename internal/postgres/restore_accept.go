package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

var restoreRuns = statement("restore_runs")

// AcceptRestore decides about the runs and occurrences that a restore of the database holds: they run, or are skipped. If
// noticed is not zero, the restore must have been noticed then: a later one may hold what the caller has not looked at.
// It works in several transactions: until the last one commits, everything stays held, and a second call continues.
//
// If they run, the missed policies decide, as after an outage: the runs that were planned are left to CatchUp. The others
// of the forgotten time, such as retries and triggers, start.
func (a *Admin) AcceptRestore(ctx context.Context, run bool, noticed time.Time) (out job.AcceptResult, err error) {
	r, err := scanRestore(a.db.QueryRow(ctx, readRestore))
	if err == nil && !r.Held {
		err = job.ErrNotHeld
	}
	if err == nil && !noticed.IsZero() && !r.Until.Equal(noticed) {
		err = errAccepted
	}
	if err == nil {
		err = a.restoreReady(ctx, &r, run)
	}
	if err == nil {
		if run {
			out.Runs, err = a.runHeld(ctx, &r)
		} else {
			out.Skipped, err = a.eachHeld(ctx, &r, skipHeldRuns, r.Until, string(job.ReasonRestored))
		}
	}
	if err != nil {
		return out, fmt.Errorf("accept a restore: %w", err)
	}
	return out, a.accepting(ctx, &r, func(tx pgx.Tx) error {
		if err := release(ctx, tx, &r, run); err != nil {
			return err
		}
		return a.auditAccepted(ctx, tx, &r, run)
	})
}

var errAccepted = errors.New("meanwhile it was accepted by another command, or another restore was noticed; " +
	"see belfry restore status")

// accepting runs a step in a transaction that has the lock of restores, if what r holds is still held: a command that
// another one has overtaken must neither skip what the other runs nor create what it skips. The row of cluster is not
// locked, because every renewal writes it.
func (a *Admin) accepting(ctx context.Context, r *job.Restore, step func(pgx.Tx) error) error {
	return a.db.Tx(ctx, "accept a restore", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('belfry restore'))`); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `SELECT FROM cluster WHERE held_until = $1`, r.Until)
		switch {
		case err != nil:
			return err
		case tag.RowsAffected() == 0:
			return errAccepted
		}
		return step(tx)
	})
}

// restoreReady returns an error while nodes have not done what has to come first: end the runs of dead sessions, and
// skip the occurrences that were not planned.
func (a *Admin) restoreReady(ctx context.Context, r *job.Restore, run bool) error {
	const unready = `
SELECT (SELECT count(*) FROM run r WHERE r.state = 1 /* running */ AND r.due_at < $1
          AND NOT EXISTS (SELECT FROM session s WHERE s.id = r.session_id AND s.expires_at > now())),
       (SELECT count(*) FROM cursor WHERE plan_at < $1 AND broken_at IS NULL)`
	var running, cursors int64
	if err := a.db.QueryRow(ctx, unready, r.Until).Scan(&running, &cursors); err != nil {
		return err
	}
	switch {
	case running > 0:
		return fmt.Errorf("%d runs are leased to sessions of before the restore; start a node, which ends them within "+
			"seconds, and try again", running)
	case run && cursors > 0:
		return errBehind
	}
	return nil
}

var errBehind = errors.New("nodes have not planned past the restore yet; start a node and try again in some seconds")

// heldBatch bounds the runs that one transaction moves.
const heldBatch = 10_000

// skipHeldRuns moves the pending runs that are held to history. Plan has skipped the occurrences that had no run.
const skipHeldRuns = `
WITH gone AS (
    DELETE FROM run WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM run
        WHERE partition = $1 AND state = 0 /* pending */ AND due_at < $3 LIMIT $2 FOR UPDATE))
    RETURNING *
)
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status,
                         queue_id, reason, attempts, idempotency_key, trace, payload)
SELECT partition, seq, version, job_id, due_at, run_at, now(), 4 /* skipped */, attempt, origin, 0,
       queue_id, $4, attempts, idempotency_key, trace, payload
FROM gone`

// eachHeld repeats a statement for each partition ($1) while it changes as many runs as it may ($2).
func (a *Admin) eachHeld(ctx context.Context, r *job.Restore, sql string, args ...any) (changed int64, err error) {
	for partition := range job.Partitions {
		for n := int64(heldBatch); n == heldBatch; {
			err := a.accepting(ctx, r, func(tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, sql, append([]any{partition, heldBatch}, args...)...)
				n = tag.RowsAffected()
				return err
			})
			if err != nil {
				return changed, err
			}
			changed += n
		}
	}
	return changed, nil
}

// startHeldRuns gives the runs that CatchUp does not decide about the time at which they may start. Those that have one
// since the command began ($5) keep it, such as the runs of runForgotten.
const startHeldRuns = `
UPDATE run SET run_at = now() WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM run
    WHERE partition = $1 AND state = 0 /* pending */ AND due_at < $3 AND run_at < $5
      AND NOT (seq = 0 AND attempt = 0 AND origin = 0 /* schedule */ AND due_at >= $4)
    LIMIT $2 FOR UPDATE))`

// runHeld prepares what is held to run. Nothing starts before release. If it is interrupted, a second command finds
// what is left: a run is inserted once, and a start time may be set again.
func (a *Admin) runHeld(ctx context.Context, r *job.Restore) (runs int64, err error) {
	var began time.Time
	if err := a.db.QueryRow(ctx, `SELECT now()`).Scan(&began); err != nil {
		return 0, err
	}
	if runs, err = a.runForgotten(ctx, r); err != nil {
		return runs, err
	}
	n, err := a.eachHeld(ctx, r, startHeldRuns, r.Until, r.From, began)
	return runs + n, err
}

// forgotten lists the cursors whose occurrences in the forgotten time plan has skipped, page by page.
const forgotten = `
SELECT partition, cursor_id, min(from_due) FROM cursor_skip
WHERE ` + unaccepted + ` AND (partition, cursor_id) > ($2, $3)
GROUP BY partition, cursor_id ORDER BY partition, cursor_id LIMIT 1000`

type forgottenCursor struct {
	partition int16
	id        int64
	from      time.Time
}

// runForgotten inserts the runs that the missed policies choose among the occurrences that plan has skipped. The skips
// stay for those that are not chosen: a run comes before a skip in the ledger.
func (a *Admin) runForgotten(ctx context.Context, r *job.Restore) (runs int64, err error) {
	last := forgottenCursor{partition: -1}
	for {
		rows, err := a.db.Query(ctx, forgotten, r.From, last.partition, last.id)
		if err != nil {
			return runs, err
		}
		page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c forgottenCursor, err error) {
			err = row.Scan(&c.partition, &c.id, &c.from)
			return c, err
		})
		if err != nil || len(page) == 0 {
			return runs, err
		}
		for _, c := range page {
			n, err := a.runCursor(ctx, r, c)
			if err != nil {
				return runs, fmt.Errorf("cursor %d of partition %d: %w", c.id, c.partition, err)
			}
			runs += n
		}
		last = page[len(page)-1]
	}
}

// runCursor inserts the runs of one cursor, for some jobs in each transaction.
func (a *Admin) runCursor(ctx context.Context, r *job.Restore, c forgottenCursor) (runs int64, err error) {
	var after uuid.UUID
	for more := true; more; {
		var written int64
		last := after
		err = a.accepting(ctx, r, func(tx pgx.Tx) error {
			more = false
			var now time.Time
			var text, missed string
			// The lock keeps changes of the jobs away.
			const lock = `SELECT now(), schedule, missed FROM cursor WHERE partition = $1 AND id = $2 FOR UPDATE`
			if err := tx.QueryRow(ctx, lock, c.partition, c.id).Scan(&now, &text, &missed); err != nil {
				return ignoreNoRows(err) // its jobs are deleted
			}
			due, err := a.missedBefore(c.from, r.Until, now, text, missed)
			if err != nil || len(due) == 0 {
				return err
			}
			dueAt, runAt := make([]time.Time, len(due)), make([]time.Time, len(due))
			for i, d := range due {
				dueAt[i], runAt[i] = d.DueAt, d.RunAt
			}
			jobs := max(1, job.PlanRuns/len(due))
			var read int
			err = tx.QueryRow(ctx, restoreRuns, c.partition, c.id, dueAt, runAt, after, jobs).
				Scan(&written, &read, &last)
			more = read == jobs
			return err
		})
		if err != nil {
			return runs, err
		}
		runs, after = runs+written, last
	}
	return runs, nil
}

// missedBefore returns the occurrences of a schedule in [from, to) that a missed policy chooses.
func (a *Admin) missedBefore(from, to, now time.Time, text, missed string) ([]job.DueTime, error) {
	in := job.PlanInput{NextDue: from, Now: now, MissedUntil: to}
	var err error
	if in.Schedule, in.Missed, err = a.api.schedules.Read(text, missed); err != nil {
		return nil, err
	}
	result, err := planAll(in)
	return result.Due, err
}

// release ends the hold. If what is held runs, it also makes the owners of all partitions call CatchUp, and then load
// every pending run: until then none starts. Nothing that was held is pending if it was skipped.
func release(ctx context.Context, tx pgx.Tx, r *job.Restore, run bool) error {
	// Renewals wait for this row, so it is locked as late as possible. They lock partitions after it, too.
	tag, err := tx.Exec(ctx, `UPDATE cluster SET held_until = '-infinity' WHERE held_until = $1`, r.Until)
	if err == nil && tag.RowsAffected() == 0 {
		err = errAccepted
	}
	if err != nil || !run {
		return err
	}
	// The time of an outage that is not caught up yet must not be replaced.
	const missed = `UPDATE partition SET missed_from = $1, missed_until = $2 WHERE missed_from IS NULL`
	tag, err = tx.Exec(ctx, missed, r.From, r.Until)
	if err == nil && tag.RowsAffected() < job.Partitions {
		err = errBehind
	}
	return err
}

func (a *Admin) auditAccepted(ctx context.Context, tx pgx.Tx, r *job.Restore, run bool) error {
	if err := store.Enter(ctx, tx, store.In(access.DefaultNamespace)); err != nil {
		return err
	}
	occurrences := "skip"
	if run {
		occurrences = "run"
	}
	return a.api.log.write(ctx, tx, auditParams{access.DefaultNamespace, itself, "restore.accept", "database"}, struct {
		From        time.Time `json:"from"`
		To          time.Time `json:"to"`
		Occurrences string    `json:"occurrences"`
	}{r.From, r.Until, occurrences})
}
