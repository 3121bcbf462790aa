package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// dropCursors removes those of some cursors that no job has any more. A statement before it has locked them. A
// transaction that joins a cursor locks it first, so either this statement sees its job, or it finds no cursor and
// creates one.
const dropCursors = `
DELETE FROM cursor WHERE ctid = ANY (ARRAY(
    SELECT x.address
    FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS id) k, LATERAL (
        SELECT c.ctid AS address FROM cursor c
        WHERE c.partition = k.partition AND c.id = k.id
          AND NOT EXISTS (SELECT FROM job
                          WHERE partition = k.partition AND cursor_id = k.id AND state = 1 /* active */)
          AND NOT EXISTS (SELECT FROM job
                          WHERE partition = k.partition AND cursor_id = k.id AND state <> 1 /* active */)
        LIMIT 1) x))`

// A cursor only moves forward, so once it has passed a job's end it stays behind it. Another transaction is changing
// locked rows: they are left for the next call.
const finishEnded = `
UPDATE job SET state = 3 /* finished */, finished_at = now() WHERE ctid = ANY (ARRAY(
    SELECT j.ctid FROM job j
    WHERE j.state = 1 /* active */ AND j.end_at <= now() AND belfry_clock_trusted()
      AND NOT EXISTS (SELECT FROM cursor c
                      WHERE c.partition = j.partition AND c.id = j.cursor_id AND c.next_due_at < j.end_at)
    ORDER BY j.end_at LIMIT $1 FOR UPDATE OF j SKIP LOCKED))`

// FinishJobs marks up to limit jobs as finished whose end has come.
func (e *Engine) FinishJobs(ctx context.Context, limit int) (n int, err error) {
	err = e.db.Tx(ctx, "finish jobs", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, pool.Apply(pool.KeyLookups)); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, finishEnded, limit)
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}

// unneeded is a condition on job j: it has neither live runs nor dead letters.
const unneeded = `NOT EXISTS (SELECT FROM run WHERE partition = j.partition AND job_id = j.id)
      AND NOT EXISTS (SELECT FROM dead_letter WHERE partition = j.partition AND job_id = j.id)`

// The order of locks is that of every change: the cursor, then the job. Locked rows are skipped.
const lockRemovable = `
SELECT x.partition, x.id, x.cursor_id
FROM (SELECT j.partition, j.id, j.cursor_id FROM job j
      WHERE j.remove_at <= now() AT TIME ZONE 'UTC' AND belfry_clock_trusted() AND ` + unneeded + `
      ORDER BY j.remove_at LIMIT $1) k, LATERAL (
    SELECT id FROM cursor
    WHERE partition = k.partition AND id = k.cursor_id
    LIMIT 1 FOR UPDATE SKIP LOCKED) c, LATERAL (
    SELECT partition, id, cursor_id FROM job
    WHERE partition = k.partition AND id = k.id AND cursor_id = c.id
    LIMIT 1 FOR UPDATE SKIP LOCKED) x`

// A trigger may have created a run before the job was locked, so this later statement checks the condition again. The
// coalesce keeps PostgreSQL from using the index of jobs to remove, which its statistics believe to be empty.
const removeJobs = `
WITH gone AS (
    DELETE FROM job WHERE ctid = ANY (ARRAY(
        SELECT x.address
        FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS id) k, LATERAL (
            SELECT j.ctid AS address FROM job j
            WHERE j.partition = k.partition AND j.id = k.id
              AND coalesce(j.remove_at <= now() AT TIME ZONE 'UTC', false) AND ` + unneeded + `
            LIMIT 1) x))
    RETURNING partition, id
), versions AS (
    DELETE FROM job_version WHERE ctid = ANY (ARRAY(
        SELECT v.address FROM gone, LATERAL (
            SELECT ctid AS address FROM job_version
            WHERE partition = gone.partition AND job_id = gone.id OFFSET 0) v))
)
SELECT count(*) FROM gone`

// RemoveJobs removes up to limit one-offs that finished long enough ago, with their versions and with cursors that no
// other job has. Their history stays.
func (e *Engine) RemoveJobs(ctx context.Context, limit int) (n int, err error) {
	err = e.db.Tx(ctx, "remove jobs", func(tx pgx.Tx) error {
		n = 0
		if _, err := tx.Exec(ctx, pool.Apply(pool.KeyLookups)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, lockRemovable, limit)
		if err != nil {
			return err
		}
		var partitions []int16
		var ids []uuid.UUID
		var cursors []int64
		var partition int16
		var id uuid.UUID
		var cursor int64
		_, err = pgx.ForEachRow(rows, []any{&partition, &id, &cursor}, func() error {
			partitions, ids, cursors = append(partitions, partition), append(ids, id), append(cursors, cursor)
			return nil
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := tx.QueryRow(ctx, removeJobs, partitions, ids).Scan(&n); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, dropCursors, partitions, cursors)
		return err
	})
	return n, err
}

// DropSkips removes up to limit rows about skipped due times, and as many findings of the audit, that are older than the
// retention of history.
func (e *Engine) DropSkips(ctx context.Context, keep time.Duration, limit int) (int, error) {
	_, err := e.db.Exec(ctx, `
DELETE FROM audit_finding WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM audit_finding WHERE found_at < now() - $1::interval ORDER BY found_at LIMIT $2))`, keep, limit)
	if err != nil {
		return 0, fmt.Errorf("drop old findings: %w", err)
	}
	tag, err := e.db.Exec(ctx, `
DELETE FROM cursor_skip WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM cursor_skip WHERE created_at < now() - $1::interval AND belfry_clock_trusted()
    ORDER BY created_at LIMIT $2))`, keep, limit)
	if err != nil {
		return 0, fmt.Errorf("drop old skips: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
