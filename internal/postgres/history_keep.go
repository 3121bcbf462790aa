package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// keepPages is how many pages of 8 kB one transaction copies or checks, some 2,500 rows.
const keepPages = 64

// keepRules reads the rules for a row h: those of its job, and that of the namespace of its queue. The rule of the
// namespace also holds for jobs that were deleted.
const keepRules = `
LEFT JOIN LATERAL (
    SELECT keep_history, keep_failures FROM job WHERE partition = h.partition AND id = h.job_id LIMIT 1) j ON true
LEFT JOIN LATERAL (
    SELECT n.keep_history FROM queue q JOIN namespace n ON n.id = q.namespace_id
    WHERE q.id = h.queue_id LIMIT 1) n ON true`

const (
	keptByTime    = `coalesce(h.ended_at > now() - coalesce(j.keep_history, n.keep_history), false)`
	keptByFailure = `(h.ended = 2 /* failed */ AND j.keep_failures IS NOT NULL)`
)

// dayCopy is how far a day of history is copied to run_history_kept.
type dayCopy struct {
	day         archive.Day
	needed      bool // false: it has no runs
	pages, next int64
}

// noteRule is part of each transaction that gives a job a rule.
const noteRule = `INSERT INTO history_rule (namespace_id) VALUES ($1) ON CONFLICT DO NOTHING`

// If the file of the table is another, rows may have moved to pages that were copied, so the copy starts again.
const readCopy = `
INSERT INTO run_history_copy AS c (day, next_page, file) VALUES ($1, 0, pg_relation_filenode(to_regclass($2)))
ON CONFLICT (day) DO UPDATE SET file = excluded.file,
    next_page = CASE WHEN c.file = excluded.file THEN c.next_page ELSE 0 END
RETURNING next_page`

// endCopies also ends the copies of days that an operator dropped.
const endCopies = `
DELETE FROM run_history_copy WHERE to_regclass(to_char(day, '"run_history_"YYYYMMDD')) IS NULL`

// beginCopy reads how far a day is copied. A copy that has begun continues, because users do not see what it copied.
func beginCopy(ctx context.Context, tx pgx.Tx, table string) (c dayCopy, err error) {
	date, found := strings.CutPrefix(table, "run_history_")
	if !found {
		return c, nil
	}
	day, err := time.Parse("20060102", date)
	if err != nil {
		return c, err
	}
	c.day = archive.DayOf(day)
	c.needed = true
	if c.pages, err = dayPages(ctx, tx, c.day); err != nil {
		return c, err
	}
	err = tx.QueryRow(ctx, readCopy, day, table).Scan(&c.next)
	return c, err
}

const copyKept = `
WITH copied AS (
    INSERT INTO run_history_kept
    SELECT h.* FROM run_history h` + keepRules + `
    WHERE ` + inPages + ` AND (` + keptByTime + ` OR ` + keptByFailure + `)
    ON CONFLICT DO NOTHING
    RETURNING job_id, ended)
SELECT DISTINCT job_id FROM copied WHERE ended = 2 /* failed */`

// copyPages copies what a rule keeps of the pages up to one, and notes the progress in the same transaction.
func (c *dayCopy) copyPages(ctx context.Context, tx pgx.Tx, to int64) error {
	if _, err := tx.Exec(ctx, pool.Apply(pool.KeyLookups)); err != nil {
		return err
	}
	failed, err := readJobs(ctx, tx, copyKept, pagesOf(c.day, c.next, to-c.next)...)
	if err == nil {
		err = trimFailures(ctx, tx, failed)
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE run_history_copy SET next_page = $2 WHERE day = $1`, c.day.Start(), to)
	return err
}

// trimKept removes failed runs of some jobs that are older than the last ones that keep_failures keeps, unless
// keep_history keeps them.
const trimKept = `
DELETE FROM run_history_kept WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest($1::smallint[], $2::uuid[]) AS k (partition, job_id), LATERAL (
        SELECT keep_failures FROM job
        WHERE partition = k.partition AND id = k.job_id AND keep_failures IS NOT NULL LIMIT 1) r, LATERAL (
        SELECT ended_at, due_at, seq FROM run_history_kept
        WHERE job_id = k.job_id AND ended = 2 /* failed */
        ORDER BY ended_at DESC, due_at DESC, seq DESC OFFSET r.keep_failures - 1 LIMIT 1) last, LATERAL (
        SELECT h.ctid FROM run_history_kept h` + keepRules + `
        WHERE h.job_id = k.job_id AND h.ended = 2 /* failed */
          AND (h.ended_at, h.due_at, h.seq) < (last.ended_at, last.due_at, last.seq) AND NOT ` + keptByTime + `) h))`

func readJobs(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// trimFailures trims the failed runs of some jobs.
func trimFailures(ctx context.Context, tx pgx.Tx, jobs []uuid.UUID) error {
	if len(jobs) == 0 {
		return nil
	}
	partitions, ids := jobKeys(len(jobs), func(i int) uuid.UUID { return jobs[i] })
	_, err := tx.Exec(ctx, trimKept, partitions, ids)
	return err
}

// drop copies the rest of a day and drops it. All statements are sent at once, so that the history is locked for one page
// and the commit, and not for each answer on its way. It returns the jobs whose failed runs it copied.
func (c *dayCopy) drop(
	ctx context.Context, tx pgx.Tx, table string, keep time.Duration,
) (failed []uuid.UUID, err error) {
	var batch pgx.Batch
	batch.Queue(pool.Apply(pool.KeyLookups))
	batch.Queue(`SELECT belfry_lock_history($1, $2)`, table, keep)
	if c.needed {
		batch.Queue(copyKept, pagesOf(c.day, c.next, maxPage-c.next)...).Query(func(rows pgx.Rows) (err error) {
			failed, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			return err
		})
	}
	batch.Queue(`SELECT belfry_drop_day($1)`, table)
	batch.Queue(endCopies)
	return failed, tx.SendBatch(ctx, &batch).Close()
}

const (
	// keptPause is the time between two passes over run_history_kept. Rules may change at any time, so a pass reads all of
	// it.
	keptPause = 6 * time.Hour
	// keptSteps is how many transactions of a pass follow each other before prune does its other work.
	keptSteps = 100
)

const dropKept = `
DELETE FROM run_history_kept WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM run_history_kept h` + keepRules + `
    WHERE h.ctid >= $1::text::tid AND h.ctid < $2::text::tid AND NOT ` + keptByTime + ` AND NOT ` + keptByFailure + `))`

const failedKept = `
SELECT DISTINCT job_id FROM run_history_kept
WHERE ctid >= $1::text::tid AND ctid < $2::text::tid AND ended = 2 /* failed */`

// readSweep reads from which page a pass goes on, and how many there are. No row: the last pass was not long ago.
const readSweep = `
SELECT kept_page, pg_relation_size('run_history_kept') / current_setting('block_size')::bigint FROM cluster
WHERE kept_page > 0 OR kept_swept_at IS NULL OR kept_swept_at < now() - $1::interval`

// noteSweep goes on with a page, or ends the pass with 0.
const noteSweep = `
UPDATE cluster SET kept_page = $1::bigint, kept_swept_at = CASE WHEN $1::bigint = 0 THEN now() ELSE kept_swept_at END`

// dropKept removes runs from run_history_kept that no rule keeps any more. One node at a time does so.
func (e *Engine) dropKept(ctx context.Context) error {
	for more, i := true, 0; more && i < keptSteps; i++ {
		err := e.db.Tx(ctx, "drop kept runs", func(tx pgx.Tx) (err error) {
			more, err = dropKeptPages(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func dropKeptPages(ctx context.Context, tx pgx.Tx) (more bool, err error) {
	mine, err := lockHistory(ctx, tx)
	if err != nil || !mine {
		return false, err
	}
	var page, pages int64
	if err := tx.QueryRow(ctx, readSweep, keptPause).Scan(&page, &pages); noRows(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, pool.Apply(pool.KeyLookups)); err != nil {
		return false, err
	}
	from, to := fmt.Sprintf("(%d,0)", page), fmt.Sprintf("(%d,0)", page+keepPages)
	if _, err := tx.Exec(ctx, dropKept, from, to); err != nil {
		return false, err
	}
	failed, err := readJobs(ctx, tx, failedKept, from, to)
	if err == nil {
		err = trimFailures(ctx, tx, failed)
	}
	if err != nil {
		return false, err
	}
	next := page + keepPages
	if next >= pages {
		next = 0
	}
	_, err = tx.Exec(ctx, noteSweep, next)
	return next > 0, err
}
