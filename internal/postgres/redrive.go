package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// The run is live again, and an occurrence has one entry in the ledger: so that of its failure moves from history to
// the attempts of the run.
const redriveRun = `
WITH letter AS (
    DELETE FROM dead_letter WHERE ` + byKey + ` RETURNING *
), failed AS (
    DELETE FROM run_history WHERE partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4 AND ended = 2 RETURNING *
)
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, base, origin, admit, queue_id, woken, payload, attempts)
SELECT j.partition, l.seq, j.version, j.id, l.due_at, $5, 0, l.attempt, j.priority, l.attempt, 4, j.admit, j.queue_id, true, l.payload,
       coalesce((SELECT attempts FROM failed LIMIT 1), '[]') || jsonb_build_array(jsonb_build_object(
           'attempt', l.attempt, 'ended_at', l.failed_at, 'outcome', 2, 'message', l.message,
           'status', coalesce((SELECT status FROM failed LIMIT 1), 0)))
FROM letter l, job j WHERE j.partition = $1 AND j.id = $2
RETURNING version, run_at, attempt, base, priority`

// RedriveRun makes a failed run pending again, now: the same run with the same
// key, whose attempts go on where they were and are counted anew (job.Decide).
// ErrNotFound: there is no such dead letter, or no such job.
func (s *Store) RedriveRun(ctx context.Context, namespace uuid.UUID, key job.Key) (job.Run, error) {
	run := job.Run{Key: key, State: job.Pending, Origin: job.FromRedrive}
	run.Partition = job.PartitionOf(key.Job)
	err := s.retrying(ctx, "redrive "+job.FormatJobID(key.Job), func(tx pgx.Tx) error {
		// The lock keeps a delete from leaving the run behind.
		var one int
		err := tx.QueryRow(ctx, `SELECT 1 FROM job j `+whereJob+` FOR UPDATE`, run.Partition, key.Job, namespace).Scan(&one)
		if err == nil {
			err = tx.QueryRow(ctx, readClock).Scan(&run.RunAt)
		}
		if err == nil {
			err = tx.QueryRow(ctx, redriveRun, run.Partition, key.Job, key.DueAt, key.Seq, run.RunAt).
				Scan(&run.Version, &run.RunAt, &run.Attempt, &run.Base, &run.Priority)
		}
		if noRows(err) {
			return fmt.Errorf("%w: no dead letter of that run", ErrNotFound)
		}
		return err
	})
	return run, err
}
