package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

var planSuspendCursors = statement("plan_suspend_cursors")

// countDue is a condition: a namespace has a quota of live runs, and none was counted for $1, or for 50 times as long as
// the last count took.
const countDue = `
SELECT belfry_clock_trusted() AND pg_try_advisory_xact_lock(hashtext('belfry live runs'))
   AND EXISTS (SELECT FROM namespace WHERE max_live_runs IS NOT NULL)
   AND NOT EXISTS (
       SELECT FROM namespace_runs WHERE counted_at BETWEEN now() - greatest($1::interval, 50 * took) AND now())`

// countForQuotas reads all live runs once, however many namespaces have a quota.
const countForQuotas = `
INSERT INTO namespace_runs (namespace_id, runs, is_full, counted_at, took)
SELECT n.id, coalesce(c.runs, 0), coalesce(c.runs, 0) >= n.max_live_runs, now(), clock_timestamp() - now()
FROM namespace n LEFT JOIN (
    SELECT q.namespace_id, sum(r.runs)::bigint AS runs
    FROM (SELECT queue_id, count(*) AS runs FROM run GROUP BY queue_id) r JOIN queue q ON q.id = r.queue_id
    GROUP BY q.namespace_id) c ON c.namespace_id = n.id
WHERE n.max_live_runs IS NOT NULL
ON CONFLICT (namespace_id) DO UPDATE SET (runs, is_full, counted_at, took) = (
    excluded.runs, excluded.is_full, excluded.counted_at, excluded.took)`

// fullNamespaces returns the namespaces that have as many live runs as their quota allows. An old count is ignored:
// nothing is skipped because nodes fail to count.
const fullNamespaces = `
SELECT n.id FROM namespace_runs r JOIN namespace n ON n.id = r.namespace_id
WHERE r.is_full AND r.runs >= n.max_live_runs
  AND r.counted_at BETWEEN now() - greatest(interval '5 min', 100 * r.took) AND now()`

const namespaceIsFull = `SELECT EXISTS (` + fullNamespaces + ` AND n.id = $1)`

// CountForQuotas counts the live runs of namespaces that have a quota of them, unless a node did so within a time, or is
// doing so.
func (a *Admin) CountForQuotas(ctx context.Context, within time.Duration) error {
	return a.db.Tx(ctx, "count live runs", func(tx pgx.Tx) error {
		var due bool
		if err := tx.QueryRow(ctx, countDue, within).Scan(&due); err != nil || !due {
			return err
		}
		var batch pgx.Batch
		batch.Queue(`SELECT set_config('jit', 'off', true)`) // it would cost more than the statement
		batch.Queue(countForQuotas)
		return tx.SendBatch(ctx, &batch).Close()
	})
}

// suspendPause is how long a cursor of a full namespace is not visited.
const suspendPause = time.Minute

// suspend leaves cursors of full namespaces where they are, for some time, and returns the others. A due time that was
// begun is completed. The missed policy decides about a broken cursor when it can be planned, and what a restore forgot is
// recorded, because the operator waits for it.
func (p *planBound) suspend(cursors []dueCursor) (rest []dueCursor) {
	if len(p.full) == 0 {
		return cursors
	}
	for i := range cursors {
		c := &cursors[i]
		if c.after != nil || c.brokenAt != nil || c.next.Before(p.restored) || !slices.Contains(p.full, c.namespace) {
			rest = append(rest, *c)
			continue
		}
		p.out.Cursors++
		p.engine.planned.add(c.namespace, 1)
		p.batch.suspended.partition = append(p.batch.suspended.partition, c.partition)
		p.batch.suspended.cursor = append(p.batch.suspended.cursor, c.id)
	}
	return rest
}
