package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// RedriveDeadLetter makes a dead letter a live run again: see RetryRun.
func (a *API) RedriveDeadLetter(ctx context.Context, o job.RunParams) error {
	return a.retryAs(ctx, o, "dead_letter.redrive", true)
}

// DiscardDeadLetter removes a dead letter. History keeps how the run failed.
func (a *API) DiscardDeadLetter(ctx context.Context, o job.RunParams) error {
	k := o.Key
	return a.retrying(ctx, o.Namespace, "discard "+job.FormatRunID(k), func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, deleteDeadLetter, k.Partition, k.Job, k.DueAt, k.Seq)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotFound
		}
		return audit(ctx, tx, auditParams{o.Namespace, o.Actor, "dead_letter.discard", job.FormatRunID(k)}, struct {
			Job string `json:"job"`
		}{job.FormatJobID(k.Job)})
	})
}

// A batch of an operation, the oldest first, after the last one that was looked at.
const (
	deadAfter = `(d.failed_at, d.job_id, d.due_at, d.seq) > (@after_failed, @after_job, @after_due, @after_seq) AND d.failed_at >= @after_failed AND d.failed_at <= @until AND ` + wantDead
	deadBatch = `
SELECT d.partition, d.job_id, d.due_at, d.seq, d.failed_at FROM queue q, LATERAL (
    SELECT d.* FROM dead_letter d WHERE d.queue_id = q.id AND ` + deadAfter + ` ORDER BY d.failed_at, d.job_id, d.due_at, d.seq LIMIT @limit) d
WHERE q.namespace_id = @namespace AND (@queue = '' OR q.name = @queue)
ORDER BY d.failed_at, d.job_id, d.due_at, d.seq LIMIT @limit`
	deadBatchOfJob = `
SELECT d.partition, d.job_id, d.due_at, d.seq, d.failed_at FROM dead_letter d
WHERE d.partition = @partition AND d.job_id = @job AND (@queue = '' OR d.queue_id = (SELECT id FROM queue WHERE namespace_id = @namespace AND name = @queue)) AND ` + deadAfter + `
ORDER BY d.failed_at, d.job_id, d.due_at, d.seq LIMIT @limit`
)

// Jobs are locked in one order, so that nothing is redriven into a job that is
// being deleted.
const lockJobsOf = `
WITH` + keyed + `
SELECT count(*) FROM (
    SELECT j.id FROM job j, (SELECT DISTINCT partition, job_id FROM k) w WHERE j.partition = w.partition AND j.id = w.job_id ORDER BY j.partition, j.id FOR UPDATE OF j) l`

// redriveBatch starts them one after the other, at the operation's rate ($6 per
// second) from $5 on. What is live already stays what it is, and a dead letter.
const redriveBatch = `
WITH` + keyed + `, made AS (
    INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, free_attempts, origin,
        admit, queue_id, concurrency_key, concurrency_max, handler, needs_sweep, payload, idempotency_key)
    SELECT d.partition, d.seq, j.version, d.job_id, d.due_at, $5::timestamptz + interval '1 second' * (row_number() OVER () - 1) / $6::integer,
           0, d.attempt, j.priority, d.attempt, 4, j.admit, j.queue_id, j.concurrency_key, j.concurrency_max, j.handler, j.handler IS NULL, d.payload, d.idempotency_key
    FROM k, LATERAL (SELECT * FROM dead_letter WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq LIMIT 1) d,
         LATERAL (SELECT version, priority, admit, queue_id, concurrency_key, concurrency_max, handler FROM job WHERE partition = k.partition AND id = k.job_id LIMIT 1) j
    ON CONFLICT DO NOTHING
    RETURNING partition, job_id, due_at, seq
)
DELETE FROM dead_letter USING made
WHERE dead_letter.partition = made.partition AND dead_letter.job_id = made.job_id AND dead_letter.due_at = made.due_at AND dead_letter.seq = made.seq`

const discardBatch = `
WITH` + keyed + `
DELETE FROM dead_letter USING k
WHERE dead_letter.partition = k.partition AND dead_letter.job_id = k.job_id AND dead_letter.due_at = k.due_at AND dead_letter.seq = k.seq`

// changeDead redrives or discards a batch, and says how many it did.
func changeDead(ctx context.Context, tx pgx.Tx, o *stored, keys []job.Key) (int64, error) {
	k := splitKeys(keys)
	if o.Kind == job.Discard {
		tag, err := tx.Exec(ctx, discardBatch, k.partition, k.job, k.dueAt, k.seq)
		return tag.RowsAffected(), err
	}
	if _, err := tx.Exec(ctx, lockJobsOf, k.partition, k.job, k.dueAt, k.seq); err != nil {
		return 0, fmt.Errorf("lock the jobs: %w", err)
	}
	tag, err := tx.Exec(ctx, redriveBatch, k.partition, k.job, k.dueAt, k.seq, o.now, o.Rate)
	return tag.RowsAffected(), err
}
