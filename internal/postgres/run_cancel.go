package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/store"
)

const lockRun = `
SELECT state, attempt, queue_id, belfry_clock(), coalesce(trace, '') FROM run WHERE ` + store.ByKey + ` FOR UPDATE`

// CancelRun ends a live run. It does not wait for an attempt that is under way: its report is fenced. It returns the
// number of that attempt; 0: there was none.
func (a *API) CancelRun(ctx context.Context, o job.RunParams) (attempt int16, err error) {
	k := o.Key
	err = a.retrying(ctx, o.Namespace, "cancel "+job.FormatRunID(k), func(tx pgx.Tx) error {
		var state job.RunState
		var queue int32
		var now time.Time
		var trace string
		err := tx.QueryRow(ctx, lockRun, k.Partition, k.Job, k.DueAt, k.Seq).Scan(&state, &attempt, &queue, &now, &trace)
		if store.NoRows(err) {
			return notLive(ctx, tx, k)
		}
		if err != nil {
			return err
		}
		var batch pgx.Batch
		finish.Ending{Key: k, Queue: queue, Now: now, Ended: job.EndedCancelled, Reason: job.ReasonCancelled}.Add(tx, &batch)
		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}
		store.LedgerOf(tx).Run(job.End{Key: k, Attempt: attempt, Ended: job.EndedCancelled, Trace: trace})
		if state == job.Pending {
			attempt = 0
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "run.cancel", job.FormatRunID(k)}, struct {
			Job     string `json:"job"`
			Attempt int16  `json:"attempt,omitempty"` // that was under way
		}{job.FormatJobID(k.Job), attempt})
	})
	return attempt, err
}

const lastEnd = `
SELECT ended FROM run_history
WHERE job_id = $1 AND due_at = $2 AND seq = $3
ORDER BY ended_at DESC LIMIT 1`

// notLive returns why a run that is not live cannot be changed.
func notLive(ctx context.Context, tx pgx.Tx, k job.Key) error {
	var ended job.Ended
	err := tx.QueryRow(ctx, lastEnd, k.Job, k.DueAt, k.Seq).Scan(&ended)
	if store.NoRows(err) {
		return job.ErrNotFound
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the run has ended: %s; only a run that has not ended can be cancelled", job.ErrConflict, job.EndedStatus(ended))
}
