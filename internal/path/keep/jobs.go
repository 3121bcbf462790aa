package keep

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/store"
)

// DropCursors removes those of some cursors that no job has any more. A statement before it has locked them. A
// transaction that joins a cursor locks it first, so either this statement sees its job, or it finds no cursor and
// creates one.
const DropCursors = `
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

// finishEnded finishes up to $1 jobs whose end has come, from an end ($2) on; NULL: from an hour ago on. A cursor only
// moves forward, so once it has passed a job's end it stays behind it. Another transaction is changing locked rows: they
// are left for the next pass.
const finishEnded = `
WITH ended AS MATERIALIZED (
    SELECT j.ctid AS address, j.end_at FROM job j
    WHERE j.state = 1 /* active */ AND j.end_at <= now() AND belfry_clock_trusted()
      AND j.end_at >= coalesce($2::timestamptz, now() - interval '1 h')
      AND NOT EXISTS (SELECT FROM cursor c
                      WHERE c.partition = j.partition AND c.id = j.cursor_id AND c.next_due_at < j.end_at)
    ORDER BY j.end_at LIMIT $1 FOR UPDATE OF j SKIP LOCKED
), finished AS (
    UPDATE job SET state = 3 /* finished */, finished_at = now()
    WHERE ctid = ANY (ARRAY(SELECT address FROM ended))
)
SELECT count(*), max(end_at) FROM ended`

// FinishJobs marks up to limit jobs as finished whose end has come. Every one-off is one of them.
func (s *Store) FinishJobs(ctx context.Context, limit int) (n int, err error) {
	err = s.finishPass.next(func(from *time.Time) (next *time.Time, err error) {
		err = s.db.Tx(ctx, "finish jobs", func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, store.Apply(store.KeyLookups)); err != nil {
				return err
			}
			return tx.QueryRow(ctx, finishEnded, limit, from).Scan(&n, &next)
		})
		if n < limit {
			next = nil
		}
		return next, err
	})
	return n, err
}

// unneeded is a condition on job j: it has neither live runs nor dead letters.
const unneeded = `NOT EXISTS (SELECT FROM run WHERE partition = j.partition AND job_id = j.id)
      AND NOT EXISTS (SELECT FROM dead_letter WHERE partition = j.partition AND job_id = j.id)`

// findRemovable looks for up to $1 jobs, from a time of removal ($2) on; NULL: from an hour ago on.
const findRemovable = `
SELECT j.partition, j.id, j.cursor_id, j.remove_at FROM job j
WHERE j.remove_at <= now() AT TIME ZONE 'UTC' AND belfry_clock_trusted()
  AND NOT (SELECT held_until > '-infinity' FROM cluster WHERE only_row) /* they may still run */
  AND j.remove_at >= coalesce($2::timestamp, now() AT TIME ZONE 'UTC' - interval '1 h') AND ` + unneeded + `
ORDER BY j.remove_at LIMIT $1`

// The order of locks is that of every change: the cursor, then the job. Locked rows are skipped.
const lockRemovable = `
SELECT x.partition, x.id, x.cursor_id
FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS id, unnest($3::bigint[]) AS cursor_id) k, LATERAL (
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

// jobPass is where RemoveJobs or FinishJobs goes on. Jobs that they cannot change come first, maybe millions of them:
// one-offs with dead letters, or one-offs that are not planned yet. Each pass walks over them once and not once per
// batch. Most passes begin an hour ago. Every jobPasses-th one begins at the oldest job, for those that can be changed
// since.
type jobPass struct {
	mu     sync.Mutex
	number int
	from   *time.Time // nil: a new pass begins
}

const jobPasses = 20

var oldestJob = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)

// next calls batch with where to begin; nil: an hour ago. It returns where to go on; nil: the pass has ended.
func (p *jobPass) next(batch func(from *time.Time) (*time.Time, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.from
	if from == nil && p.number%jobPasses == 0 {
		from = &oldestJob
	}
	next, err := batch(from)
	if err != nil {
		return err
	}
	if p.from = next; next == nil {
		p.number++
	}
	return nil
}

// RemoveJobs removes up to limit one-offs that finished long enough ago, with their versions and with cursors that no
// other job has. Their history stays.
func (s *Store) RemoveJobs(ctx context.Context, limit int) (n int, err error) {
	err = s.removePass.next(func(from *time.Time) (next *time.Time, err error) {
		err = s.db.Tx(ctx, "remove jobs", func(tx pgx.Tx) error {
			n, next = 0, nil
			if _, err := tx.Exec(ctx, store.Apply(store.KeyLookups)); err != nil {
				return err
			}
			var found removable
			if err := found.read(ctx, tx, findRemovable, limit, from); err != nil || len(found.ids) == 0 {
				return err
			}
			if len(found.ids) == limit {
				next = &found.at
			}
			var locked removable
			if err := locked.read(ctx, tx, lockRemovable, found.partitions, found.ids, found.cursors); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, removeJobs, locked.partitions, locked.ids).Scan(&n); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, DropCursors, locked.partitions, locked.cursors)
			return err
		})
		return next, err
	})
	return n, err
}

// removable is jobs to remove, one row each, and when the last of them may go.
type removable struct {
	partitions []int16
	ids        []uuid.UUID
	cursors    []int64
	at         time.Time
}

func (r *removable) read(ctx context.Context, tx pgx.Tx, query string, args ...any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	var partition int16
	var id uuid.UUID
	var cursor int64
	columns := []any{&partition, &id, &cursor, &r.at}
	_, err = pgx.ForEachRow(rows, columns[:len(rows.FieldDescriptions())], func() error {
		r.partitions, r.ids, r.cursors = append(r.partitions, partition), append(r.ids, id), append(r.cursors, cursor)
		return nil
	})
	return err
}

// firstDayToArchive is when the first day begins that is closed or, if the archive is required, that exists. NULL: none.
const firstDayToArchive = `(SELECT min(day)::timestamp AT TIME ZONE 'UTC' FROM (
    SELECT day FROM archive_day WHERE dropped_at IS NULL
    UNION ALL
    SELECT to_date(substring(c.relname FROM '[0-9]{8}$'), 'YYYYMMDD')
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'run_history'::regclass AND (SELECT required FROM archive_setting)) d)`

// DropSkips removes up to limit rows about skipped due times, and as many findings of the audit, that are older than the
// retention of history. Skips of a day that is to be archived stay until the day is dropped: they are exported together.
func (s *Store) DropSkips(ctx context.Context, keep time.Duration, limit int) (int, error) {
	_, err := s.db.Exec(ctx, `
DELETE FROM audit_finding WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM audit_finding WHERE found_at < now() - $1::interval AND belfry_clock_trusted()
    ORDER BY found_at LIMIT $2))`, keep, limit)
	if err != nil {
		return 0, fmt.Errorf("drop old findings: %w", err)
	}
	tag, err := s.db.Exec(ctx, `
DELETE FROM cursor_skip WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM cursor_skip
    WHERE created_at < least(now() - $1::interval, `+firstDayToArchive+`) AND belfry_clock_trusted()
    ORDER BY created_at LIMIT $2))`, keep, limit)
	if err != nil {
		return 0, fmt.Errorf("drop old skips: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// dropOperations drops operations that ended long ago, after what belongs to them. While an undo runs, none is dropped: it
// reads the versions that another operation wrote.
var dropOperations = []string{
	dropOfOperation("operation_version", "operation_id"), dropOfOperation("operation_item", "operation_id"),
	dropOfOperation("operation", "id"),
}

func dropOfOperation(table, id string) string {
	return `
DELETE FROM ` + table + ` WHERE ctid = ANY (ARRAY(
    SELECT x.ctid FROM operation o JOIN ` + table + ` x ON x.` + id + ` = o.id
    WHERE o.ended_at < now() - $1::interval AND belfry_clock_trusted()
      AND NOT EXISTS (SELECT FROM operation WHERE state = 'running' AND kind = 'undo')
    LIMIT $2))`
}

// DropOperations removes operations that ended before the retention of history. It removes up to limit rows of one
// table, so an operation on many jobs takes several calls.
func (s *Store) DropOperations(ctx context.Context, keep time.Duration, limit int) (n int, err error) {
	err = s.db.Tx(ctx, "drop operations", func(tx pgx.Tx) error {
		for _, statement := range dropOperations {
			tag, err := tx.Exec(ctx, statement, keep, limit)
			if n = int(tag.RowsAffected()); err != nil || n == limit {
				return err
			}
		}
		return nil
	})
	return n, err
}
