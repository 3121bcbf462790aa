package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/store"
)

const insertTriggered = `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 concurrency_key, concurrency_max, handler, needs_sweep, payload, trace)
SELECT j.partition,
       greatest((SELECT coalesce(max(r.seq), 0) + 1 FROM run r
                 WHERE r.partition = j.partition AND r.job_id = j.id AND r.due_at = $3 AND r.seq > 0),
                CASE WHEN $6 /* a user chose the time: a run of that time may have been cancelled */ THEN (
                    SELECT coalesce(max(h.seq), 0) + 1 FROM run_history h
                    WHERE h.job_id = j.id AND h.due_at = $3 AND h.seq > 0) END),
       j.version, j.id, $3, $3, 0 /* pending */, 0, j.priority, 1 /* trigger */, j.admit, j.queue_id,
       j.concurrency_key, j.concurrency_max, j.handler, j.handler IS NULL, $4, nullif($5, '')
FROM job j
WHERE j.partition = $1 AND j.id = $2
RETURNING seq, queue_id, handler IS NOT NULL`

// unfinished finds the newest run of a job that is due by $3, in progress, or will be retried.
const unfinished = `
SELECT due_at, seq FROM run
WHERE partition = $1 AND job_id = $2 AND (state <> 0 /* live */ OR attempt > 0 OR run_at <= $3)
ORDER BY due_at DESC, seq DESC LIMIT 1`

// checkIdle returns ErrConflict if a run of the job of key has not ended. Later runs that are planned do not count.
func checkIdle(ctx context.Context, tx pgx.Tx, key job.Key, now time.Time) error {
	err := tx.QueryRow(ctx, unfinished, key.Partition, key.Job, now).Scan(&key.DueAt, &key.Seq)
	switch {
	case store.NoRows(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: the job is not idle: %s has not ended; trigger it without if_idle to let the run wait",
		job.ErrConflict, job.FormatRunID(key))
}

// TriggerJob creates a run of a job that is due now, or later if the request says so. The job may be paused or finished.
// A payload, if given, replaces the payload of the job.
func (a *API) TriggerJob(ctx context.Context, o job.ChangeParams, payload json.RawMessage) (job.Key, error) {
	what := "trigger " + job.FormatJobID(o.ID)
	text, err := checkPayload(payload)
	if err != nil {
		return job.Key{}, fmt.Errorf("%s: %w", what, err)
	}
	key := job.Key{Partition: job.PartitionOf(o.ID), Job: o.ID}
	err = a.retrying(ctx, o.Namespace, what, func(tx pgx.Tx) error {
		if err := replayOrClaim(ctx, tx, o.Namespace, o.Idempotent); err != nil {
			return err
		}
		// The lock keeps the job from being deleted meanwhile, and serializes triggers of the same instant. A trigger
		// does not involve the cursor.
		var name string
		var version int32
		const lock = `SELECT j.name, j.version FROM job j ` + whereJob + ` FOR UPDATE`
		err := tx.QueryRow(ctx, lock, key.Partition, o.ID, o.Namespace).Scan(&name, &version)
		switch {
		case store.NoRows(err):
			return job.ErrNotFound
		case err != nil:
			return err
		case o.IfVersion != 0 && o.IfVersion != version:
			return fmt.Errorf("%w: the job has version %d, not %d", job.ErrConflict, version, o.IfVersion)
		}
		if _, err := runsToAdd(ctx, tx, 0, key); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, readClock).Scan(&key.DueAt); err != nil {
			return err
		}
		now := key.DueAt.UTC()
		key.DueAt = now
		if err := o.CheckTrigger(now); err != nil {
			return err
		}
		if o.IfIdle {
			if err := checkIdle(ctx, tx, key, now); err != nil {
				return err
			}
		}
		if !o.At.IsZero() {
			key.DueAt = roundUp(o.At).UTC()
		}
		var queue int32
		var pulled bool
		err = tx.QueryRow(
			ctx, insertTriggered, key.Partition, o.ID, key.DueAt, text, o.Trace, !o.At.IsZero(),
		).Scan(&key.Seq, &queue, &pulled)
		if err != nil {
			return err
		}
		if key.DueAt.Sub(now) <= job.WakeAhead {
			store.WakeOf(tx).Add(key.Partition, queue, pulled)
		}
		if err := storeResponse(ctx, tx, o.Namespace, o.Idempotent, key); err != nil {
			return err
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "job.trigger", job.FormatJobID(o.ID)}, struct {
			Name    string `json:"name"`
			Run     string `json:"run"`
			Payload bool   `json:"payload,omitempty"` // the run has its own, which the log must not contain
		}{name, job.FormatRunID(key), text != nil})
	})
	if err != nil {
		return job.Key{}, err
	}
	return key, nil
}

func checkPayload(p json.RawMessage) (*string, error) {
	switch {
	case len(p) == 0:
		return nil, nil
	case len(p) > job.MaxPayload:
		return nil, &problem.Problem{
			Field:   "payload",
			Problem: fmt.Sprintf("%d bytes; at most %d are taken", len(p), job.MaxPayload),
			Fix:     "store the data elsewhere and send where it is",
		}
	case !json.Valid(p):
		return nil, &problem.Problem{Field: "payload", Problem: "it is not valid JSON", Fix: "quote it if it is a string"}
	}
	text := string(p)
	return &text, nil
}
