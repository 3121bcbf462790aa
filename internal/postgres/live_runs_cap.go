package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// countDue is true if no live runs were counted for $1, or for 50 times as long as the last count took.
const countDue = `
SELECT belfry_clock_trusted() AND pg_try_advisory_xact_lock(hashtext('belfry live runs'))
   AND NOT EXISTS (
       SELECT FROM namespace_runs WHERE counted_at BETWEEN now() - greatest($1::interval, 50 * took) AND now())`

// countNamespaces reads all live runs once, and keeps the counts of the namespaces with the most of them: only those can
// be full.
const countNamespaces = `
INSERT INTO namespace_runs (namespace_id, runs, is_full, counted_at, took)
SELECT q.namespace_id, sum(r.runs)::bigint, sum(r.runs) >= $1, now(), clock_timestamp() - now()
FROM (SELECT queue_id, count(*) AS runs FROM run GROUP BY queue_id) r JOIN queue q ON q.id = r.queue_id
GROUP BY q.namespace_id ORDER BY 2 DESC LIMIT 100
ON CONFLICT (namespace_id) DO UPDATE SET (runs, is_full, counted_at, took) = (
    excluded.runs, excluded.is_full, excluded.counted_at, excluded.took)`

const deleteOldCounts = `DELETE FROM namespace_runs WHERE counted_at <> now()`

// isFull is a condition on namespace_runs: the namespace has as many live runs as it may have. An old count is ignored:
// schedules go on if nodes fail to count.
const isFull = `
is_full AND counted_at BETWEEN now() - greatest(interval '5 min', 100 * took) AND now()`

const namespaceIsFull = `SELECT EXISTS (SELECT FROM namespace_runs WHERE namespace_id = $1 AND ` + isFull + `)`

// CountLiveRuns counts the live runs of namespaces, of which each may have a maximum, unless a node did so within a time,
// or is doing so.
func (a *Admin) CountLiveRuns(ctx context.Context, within time.Duration, maximum int64) error {
	return a.db.Tx(ctx, "count live runs", func(tx pgx.Tx) error {
		var due bool
		if err := tx.QueryRow(ctx, countDue, within).Scan(&due); err != nil || !due {
			return err
		}
		var batch pgx.Batch
		batch.Queue(`SELECT set_config('jit', 'off', true)`) // it would cost more than the statement
		batch.Queue(countNamespaces, maximum)
		batch.Queue(deleteOldCounts)
		return tx.SendBatch(ctx, &batch).Close()
	})
}

// fullPause is when plan visits a cursor of a full namespace again.
const fullPause = time.Minute

var errNotPlanned = errors.New(job.TooManyLiveRuns + "; schedules add runs again when it has fewer")

// setFullAside sets the cursors of full namespaces aside, as if they were broken, and returns the others. A due time that
// was begun is completed, and what a restore forgot is recorded, because the operator waits for it.
func (p *planBound) setFullAside(cursors []dueCursor) (others []dueCursor) {
	if len(p.full) == 0 {
		return cursors
	}
	for i := range cursors {
		c := &cursors[i]
		if c.after != nil || c.next.Before(p.restored) || !slices.Contains(p.full, c.namespace) {
			others = append(others, *c)
			continue
		}
		p.out.Cursors++
		p.engine.planned.add(c.namespace, 1)
		p.breakCursor(c, errNotPlanned, p.until.Add(fullPause))
	}
	return others
}
