package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/keep"
	"github.com/belfry-dev/belfry/internal/store"
)

// deleteRuns removes the pending runs of a job. Runs that were tried end as cancelled and due runs that were not tried
// as skipped. Runs that are not yet due leave no trace. Runs that are being delivered end by themselves.
const deleteRuns = `
WITH gone AS (
    DELETE FROM run WHERE partition = $1 AND job_id = $2 AND state = 0 /* pending */ RETURNING *
), ended AS (
    INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt,
                             origin, status, session_id, queue_id, reason, attempts, idempotency_key, payload)
    SELECT partition, seq, version, job_id, due_at, run_at, claimed_at, $3,
           CASE WHEN attempt > 0 THEN 3 /* cancelled */ ELSE 4 /* skipped */ END, attempt,
           origin, 0, session_id, queue_id, 'deleted', attempts, idempotency_key, payload
    FROM gone
    WHERE due_at <= $3 OR seq > 0 OR attempt > 0
    RETURNING ended
)
SELECT count(*) FILTER (WHERE ended = 3 /* cancelled */), count(*) FILTER (WHERE ended = 4 /* skipped */) FROM ended`

// DeleteJob removes a job. Its versions and its history stay.
func (a *API) DeleteJob(ctx context.Context, o job.ChangeParams) (out job.Change, err error) {
	err = a.changeJob(ctx, "delete", o, func(c *change) error {
		out = job.Change{Job: c.job.Job, Now: c.now, Changed: true}
		return c.delete(ctx)
	})
	return out, err
}

func (c *change) delete(ctx context.Context) error {
	j := &c.job
	skips, err := c.unplanned()
	if err != nil {
		return err
	}
	var batch pgx.Batch
	batch.Queue(deleteRuns, j.Partition, j.ID, c.now).QueryRow(func(row pgx.Row) error {
		var cancelled, skipped int64
		err := row.Scan(&cancelled, &skipped)
		store.LedgerOf(c.tx).Ended(j.queueID, job.EndedCancelled, job.ReasonDeleted, cancelled)
		store.LedgerOf(c.tx).Ended(j.queueID, job.EndedSkipped, job.ReasonDeleted, skipped)
		return err
	})
	countSkips(c.tx, j.queueID, skips)
	(&runsOf{partition: j.Partition, job: j.ID, version: j.Version, queue: j.queueID}).skip(&batch, skips, c.now)
	batch.Queue(`DELETE FROM job WHERE partition = $1 AND id = $2`, j.Partition, j.ID)
	batch.Queue(keep.DropCursors, []int16{j.Partition}, []int64{j.cursor})
	if err := c.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	c.audit("job.delete", named{j.Name})
	return nil
}

// unplanned returns what was due until now and will never be planned, because the job was paused or its cursor is
// behind.
func (c *change) unplanned() ([]job.Skip, error) {
	d, err := derive(c.job.Definition, c.job.ID)
	if err != nil {
		return nil, nil //nolint:nilerr // a user must be able to delete a job whose definition cannot be read
	}
	switch {
	case c.job.State == job.Paused:
		return c.skipped(d, c.job.planFrom, job.ReasonPaused)
	case c.job.State == job.Active && c.cursor.before(c.now):
		return c.skipped(d, store.Later(c.job.planFrom, *c.cursor.next), job.ReasonDeleted)
	default:
		return nil, nil
	}
}
