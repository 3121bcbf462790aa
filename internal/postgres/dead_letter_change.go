package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// RedriveDeadLetter turns a dead letter into a live run again: see RetryRun.
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
			return job.ErrNotFound
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "dead_letter.discard", job.FormatRunID(k)}, struct {
			Job string `json:"job"`
		}{job.FormatJobID(k.Job)})
	})
}

// The next batch of an operation: the oldest dead letters after the last one that it has read.
const (
	deadAfter = `(d.failed_at, d.job_id, d.due_at, d.seq) > (@after_failed, @after_job, @after_due, @after_seq)
      AND d.failed_at >= @after_failed AND d.failed_at <= @until AND ` + wantDead

	deadBatch = `
SELECT d.partition, d.job_id, d.due_at, d.seq, d.failed_at FROM queue q, LATERAL (
    SELECT d.* FROM dead_letter d
    WHERE d.queue_id = q.id AND ` + deadAfter + `
    ORDER BY d.failed_at, d.job_id, d.due_at, d.seq LIMIT @limit) d
WHERE q.namespace_id = @namespace AND (@queue = '' OR q.name = @queue)
ORDER BY d.failed_at, d.job_id, d.due_at, d.seq LIMIT @limit`

	deadBatchOfJob = `
SELECT d.partition, d.job_id, d.due_at, d.seq, d.failed_at FROM dead_letter d
WHERE d.partition = @partition AND d.job_id = @job AND ` + ofQueue + ` AND ` + deadAfter + `
ORDER BY d.failed_at, d.job_id, d.due_at, d.seq LIMIT @limit`
)

var (
	redriveLock  = statement("redrive_lock")
	redriveBatch = statement("redrive")
	discardBatch = statement("discard")
)

// changeDead redrives or discards a batch and returns how many dead letters it changed.
func changeDead(ctx context.Context, tx pgx.Tx, o *activeOperation, keys []job.Key) (int64, error) {
	k := store.SplitKeys(keys)
	if o.Kind == job.Discard {
		tag, err := tx.Exec(ctx, discardBatch, k.Partition, k.Job, k.DueAt, k.Seq)
		return tag.RowsAffected(), err
	}
	if _, err := tx.Exec(ctx, redriveLock, k.Partition, k.Job, k.DueAt, k.Seq); err != nil {
		return 0, fmt.Errorf("lock the jobs: %w", err)
	}
	if _, err := runsToAdd(ctx, tx, 0, keys...); err != nil {
		return 0, err
	}
	rows, err := tx.Query(ctx, redriveBatch, k.Partition, k.Job, k.DueAt, k.Seq, o.now, o.Rate)
	if err != nil {
		return 0, err
	}
	var partition int16
	var queue int32
	var pulled bool
	tag, err := pgx.ForEachRow(rows, []any{&partition, &queue, &pulled}, func() error {
		store.WakeOf(tx).Add(partition, queue, pulled)
		return nil
	})
	return tag.RowsAffected(), err
}
