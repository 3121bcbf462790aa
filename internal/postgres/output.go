package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// maxOutputs is how many outputs one statement writes.
const maxOutputs = 100

// writeOutputs stores what live attempts have written so far. Session and attempt fence it: an attempt that was
// replaced writes nothing more.
const writeOutputs = `
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::smallint[]) AS attempt, unnest($6::uuid[]) AS namespace_id,
           unnest($7::bigint[]) AS total, unnest($8::text[]) AS output, unnest($9::uuid[]) AS session_id
)
INSERT INTO run_output_live (partition, job_id, due_at, seq, attempt, namespace_id, total_bytes, output)
SELECT k.partition, k.job_id, k.due_at, k.seq, k.attempt, k.namespace_id, k.total, k.output
FROM k, LATERAL (
    SELECT FROM run r
    WHERE r.partition = k.partition AND r.job_id = k.job_id AND r.due_at = k.due_at AND r.seq = k.seq
      AND r.attempt = k.attempt AND r.session_id = k.session_id AND r.state = 1 /* running */
    LIMIT 1) live
ON CONFLICT (partition, job_id, due_at, seq) DO UPDATE
SET attempt = excluded.attempt, total_bytes = excluded.total_bytes, output = excluded.output
WHERE run_output_live.attempt <= excluded.attempt`

// WriteOutputs stores what live attempts have written so far, so that any node can show it. It returns how many of them
// are still the live attempt of their run.
func (e *Engine) WriteOutputs(ctx context.Context, all []job.Output) (written int, err error) {
	for len(all) > 0 {
		part := all[:min(len(all), maxOutputs)]
		all = all[len(part):]
		ends, namespace := make([]job.Completion, len(part)), make([]uuid.UUID, len(part))
		total, text := make([]int64, len(part)), make([]string, len(part))
		for i, o := range part {
			ends[i] = job.Completion{Key: o.Key, Session: o.Session, Attempt: o.Attempt}
			namespace[i], total[i], text[i] = o.Namespace, o.Total, o.Text
		}
		k, attempt := splitCompletions(ends)
		var batch pgx.Batch // one round trip, one transaction
		batch.Queue(pool.Apply(pool.KeyLookups))
		batch.Queue(
			writeOutputs, k.partition, k.job, k.dueAt, k.seq, attempt, namespace, total, text, sessionsOf(ends),
		).Exec(func(tag pgconn.CommandTag) error {
			written += int(tag.RowsAffected())
			return nil
		})
		if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
			return written, fmt.Errorf("write the output of %d attempts: %w", len(part), err)
		}
	}
	return written, nil
}

const keepOutput = `
INSERT INTO run_output (partition, job_id, due_at, seq, ended_at, attempt, namespace_id, total_bytes, output)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

const dropOutput = `DELETE FROM run_output_live WHERE ` + byKey + ` AND attempt <= $5`

// output queues the statements that store the output of an attempt that has ended.
func (d *decided) output(in job.DecideInput, namespace *uuid.UUID) {
	k, o := in.Run.Key, in.Outcome
	if o.Output == "" || namespace == nil {
		return
	}
	d.batch.Queue(
		keepOutput, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, in.Run.Attempt, *namespace, o.OutputTotal, o.Output,
	)
	d.batch.Queue(dropOutput, k.Partition, k.Job, k.DueAt, k.Seq, in.Run.Attempt)
}

// The output of an ended attempt comes before its live output, because it is complete.
const readOutputs = `
SELECT DISTINCT ON (attempt) attempt, total_bytes, output FROM (
    (SELECT attempt, total_bytes, output, 0 AS live FROM run_output
     WHERE job_id = $2 AND due_at = $3 AND seq = $4 ORDER BY attempt DESC LIMIT 50)
    UNION ALL
    SELECT attempt, total_bytes, output, 1 FROM run_output_live WHERE ` + byKey + `) x
ORDER BY attempt, live`

// Outputs returns the last part of the output of each attempt of a run that has written any, in order.
func (a *API) Outputs(ctx context.Context, namespace uuid.UUID, k job.Key) (out []job.Output, err error) {
	err = a.db.Query(ctx, pool.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (job.Output, error) {
			o := job.Output{Key: k, Namespace: namespace}
			return o, row.Scan(&o.Attempt, &o.Total, &o.Text)
		})
		return err
	}, readOutputs, k.Partition, k.Job, k.DueAt, k.Seq)
	if err != nil {
		return nil, fmt.Errorf("read the output of a run: %w", err)
	}
	return out, nil
}

// dropStaleOutputs removes the live output of nodes that died and of runs that were cancelled. The table is small: it
// has no more rows than commands are running.
const dropStaleOutputs = `
DELETE FROM run_output_live o WHERE o.ctid = ANY (ARRAY(
    SELECT l.ctid FROM run_output_live l
    WHERE NOT EXISTS (
        SELECT FROM run r
        WHERE r.partition = l.partition AND r.job_id = l.job_id AND r.due_at = l.due_at AND r.seq = l.seq
          AND r.attempt = l.attempt AND r.state = 1 /* running */)
    LIMIT $1))`

// DropStaleOutputs removes the live output of up to limit attempts that are not running, and returns how many it
// removed.
func (e *Engine) DropStaleOutputs(ctx context.Context, limit int) (int, error) {
	tag, err := e.db.Exec(ctx, dropStaleOutputs, limit)
	if err != nil {
		return 0, fmt.Errorf("drop the output of ended attempts: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
