package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// misplaced is a condition on a run and its job j: the run waits where no node or worker reads it. If the job is gone,
// a node has to end the run.
const misplaced = `(run.handler IS DISTINCT FROM j.handler OR run.queue_id <> coalesce(j.queue_id, run.queue_id))`

// findMisplaced looks at the next $6 overdue runs after a key, and returns those that are misplaced. If there are more
// to look at, it returns the last one that it looked at too.
const findMisplaced = `
SELECT run.partition, run.job_id, run.due_at, run.seq, ` + misplaced + `, run.n = $6
FROM (SELECT partition, job_id, due_at, seq, queue_id, handler,
             row_number() OVER (ORDER BY partition, job_id, due_at, seq) AS n
      FROM run
      WHERE partition = ANY ($5) AND (partition, job_id, due_at, seq) > ($1, $2, $3, $4)
        AND state = 0 /* pending */ AND run_at < now() - interval '1 min'
      ORDER BY partition, job_id, due_at, seq LIMIT $6) run
LEFT JOIN LATERAL (
    SELECT queue_id, handler FROM job WHERE partition = run.partition AND id = run.job_id LIMIT 1) j ON true
WHERE ` + misplaced + ` OR run.n = $6
ORDER BY run.n`

const lockPending = `SELECT FROM run WHERE ` + store.ByKey + ` AND state = 0 /* pending */ FOR UPDATE`

// placeRun gives a run the definition that its job has now.
const placeRun = `
UPDATE run
SET version = coalesce(j.version, run.version), priority = coalesce(j.priority, run.priority),
    admit = coalesce(j.admit, run.admit), queue_id = coalesce(j.queue_id, run.queue_id),
    concurrency_key = j.concurrency_key, concurrency_max = j.concurrency_max,
    handler = j.handler, needs_sweep = j.handler IS NULL
FROM (SELECT) always LEFT JOIN LATERAL (
    SELECT version, priority, admit, queue_id, concurrency_key, concurrency_max, handler FROM job
    WHERE partition = $1 AND id = $2 LIMIT 1) j ON true
WHERE run.partition = $1 AND run.job_id = $2 AND run.due_at = $3 AND run.seq = $4
  AND run.state = 0 /* pending */ AND ` + misplaced

// maxReconciledRuns is how many overdue runs one call of Reconcile compares with their jobs.
const maxReconciledRuns = 10_000

// lastCompared is where reconcileRuns goes on.
type lastCompared struct {
	mu    sync.Mutex
	after job.Key
}

// reconcileRuns moves pending runs to the queue and handler of their job, and returns them. It compares a bounded
// number of runs that should have started a minute ago, and goes on with the next ones when it is called again. There
// should be none: changes of a job take its pending runs along, and retries follow the job.
func (e *Engine) reconcileRuns(ctx context.Context, partitions []int16) (moved []job.Key, err error) {
	l := &e.lastCompared
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []job.Key
	var next job.Key
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.KeyLookups))
	k := l.after
	batch.Queue(findMisplaced, k.Partition, k.Job, k.DueAt, k.Seq, partitions, maxReconciledRuns).
		Query(func(rows pgx.Rows) error {
			var key job.Key
			var wrong, last bool
			_, err := pgx.ForEachRow(
				rows,
				[]any{&key.Partition, store.Raw(&key.Job), &key.DueAt, &key.Seq, &wrong, &last},
				func() error {
					if wrong {
						found = append(found, key)
					}
					if last {
						next = key
					}
					return nil
				},
			)
			return err
		})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("compare runs with their jobs: %w", err)
	}
	if moved, err = e.placeRuns(ctx, found); err != nil {
		return nil, err
	}
	l.after = next
	return moved, nil
}

// placeRuns locks the runs in one statement and moves them in the next, which sees changes of their jobs that came
// before the lock. A change of a job that comes later waits for the lock.
func (e *Engine) placeRuns(ctx context.Context, keys []job.Key) (moved []job.Key, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	err = e.db.Tx(ctx, "move misplaced runs", func(tx pgx.Tx) error {
		moved = nil
		var batch pgx.Batch
		batch.Queue(store.Apply(store.KeyLookups))
		for _, k := range keys {
			batch.Queue(lockPending, k.Partition, k.Job, k.DueAt, k.Seq)
		}
		for _, k := range keys {
			batch.Queue(placeRun, k.Partition, k.Job, k.DueAt, k.Seq).Exec(func(tag pgconn.CommandTag) error {
				if tag.RowsAffected() > 0 {
					moved = append(moved, k)
				}
				return nil
			})
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
	return moved, err
}
