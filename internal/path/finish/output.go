package finish

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
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
func (s *Store) WriteOutputs(ctx context.Context, all []job.Output) (written int, err error) {
	for len(all) > 0 {
		part := all[:min(len(all), maxOutputs)]
		all = all[len(part):]
		ends, namespace := make([]job.Completion, len(part)), make([]uuid.UUID, len(part))
		total, text := make([]int64, len(part)), make([]string, len(part))
		for i, o := range part {
			ends[i] = job.Completion{Key: o.Key, Session: o.Session, Attempt: o.Attempt}
			namespace[i], total[i], text[i] = o.Namespace, o.Total, o.Text
		}
		k, attempt := SplitCompletions(ends)
		var batch pgx.Batch // one round trip, one transaction
		batch.Queue(store.Apply(store.KeyLookups))
		batch.Queue(
			writeOutputs, k.Partition, k.Job, k.DueAt, k.Seq, attempt, namespace, total, text, SessionsOf(ends),
		).Exec(func(tag pgconn.CommandTag) error {
			written += int(tag.RowsAffected())
			return nil
		})
		if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
			return written, fmt.Errorf("write the output of %d attempts: %w", len(part), err)
		}
	}
	return written, nil
}

const keepOutput = `
INSERT INTO run_output (partition, job_id, due_at, seq, ended_at, attempt, namespace_id, total_bytes, output)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

const dropOutput = `DELETE FROM run_output_live WHERE ` + store.ByKey + ` AND attempt <= $5`

// output queues the statements that store the output of an attempt that has ended.
func (d *Written) output(in Input, namespace *uuid.UUID) {
	k, o := in.Run.Key, in.Outcome
	if o.Output == "" || namespace == nil {
		return
	}
	d.batch.Queue(
		keepOutput, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, in.Run.Attempt, *namespace, o.OutputTotal, o.Output,
	)
	d.batch.Queue(dropOutput, k.Partition, k.Job, k.DueAt, k.Seq, in.Run.Attempt)
}
