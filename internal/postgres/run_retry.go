package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// endedRun reads the newest end of a run. One that succeeded without a key of its own was delivered under its id.
const endedRun = `
SELECT h.attempt, h.origin, h.due_to IS NOT NULL, d.job_id IS NOT NULL, coalesce(d.payload, h.payload),
       coalesce(d.idempotency_key, h.idempotency_key, CASE WHEN h.ended = 1 /* succeeded */ THEN '' END),
       h.ended, h.ended_at
FROM run_history h
LEFT JOIN dead_letter d ON d.partition = $1 AND d.job_id = $2 AND d.due_at = $3 AND d.seq = $4
WHERE h.job_id = $2 AND h.due_at = $3 AND h.seq = $4
ORDER BY h.ended_at DESC LIMIT 1`

// insertRetried continues the attempt numbers, so that a report of an old attempt is fenced.
const insertRetried = `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, free_attempts, priority, origin,
                 admit, queue_id, concurrency_key, concurrency_max, handler, needs_sweep, payload, idempotency_key)
SELECT j.partition, $4, j.version, j.id, $3, belfry_clock(), 0 /* pending */, $5, $5, j.priority, 4 /* redrive */,
       j.admit, j.queue_id, j.concurrency_key, j.concurrency_max, j.handler, j.handler IS NULL, $6, $7
FROM job j
WHERE j.partition = $1 AND j.id = $2
ON CONFLICT DO NOTHING
RETURNING queue_id, handler IS NOT NULL`

const deleteDeadLetter = `DELETE FROM dead_letter WHERE ` + store.ByKey

// RetryRun makes an ended run live again, as the job is defined now. The run keeps its id and idempotency key, so a
// target can recognize work that it has already done.
func (a *API) RetryRun(ctx context.Context, o job.RunParams) error {
	return a.retryAs(ctx, o, "run.retry", false)
}

// retryAs is RetryRun under the name of an action. With deadOnly it retries only dead letters.
func (a *API) retryAs(ctx context.Context, o job.RunParams, action string, deadOnly bool) error {
	k := o.Key
	what := action + " " + job.FormatRunID(k)
	return a.retrying(ctx, o.Namespace, what, func(tx pgx.Tx) error {
		if err := replayOrClaim(ctx, tx, o.Namespace, o.Idempotent); err != nil {
			return err
		}
		// The lock keeps the job from being deleted meanwhile, and serializes retries of one run.
		var name string
		err := tx.QueryRow(ctx, `SELECT j.name FROM job j `+whereJob+` FOR UPDATE`, k.Partition, k.Job, o.Namespace).
			Scan(&name)
		gone := store.NoRows(err)
		if err != nil && !gone {
			return err
		}
		e, err := readEnded(ctx, tx, k)
		if err == nil {
			err = e.mayRetry(o, gone, deadOnly)
		}
		if err != nil {
			return err
		}
		if _, err := runsToAdd(ctx, tx, 0, k); err != nil {
			return err
		}
		var queue int32
		var pulled bool
		err = tx.QueryRow(ctx, insertRetried, k.Partition, k.Job, k.DueAt, k.Seq, e.attempt, e.payload, e.ownKey).
			Scan(&queue, &pulled)
		switch {
		case store.NoRows(err):
			return fmt.Errorf("%w: the run is live", job.ErrConflict)
		case err != nil:
			return err
		}
		store.WakeOf(tx).Add(k.Partition, queue, pulled)
		if _, err := tx.Exec(ctx, deleteDeadLetter, k.Partition, k.Job, k.DueAt, k.Seq); err != nil {
			return err
		}
		if err := storeResponse(ctx, tx, o.Namespace, o.Idempotent, k); err != nil {
			return err
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, action, job.FormatRunID(k)}, struct {
			Job  string `json:"job"`
			Name string `json:"name"`
		}{job.FormatJobID(k.Job), name})
	})
}

// ended is the newest end of a run.
type ended struct {
	key     job.Key
	attempt int16
	origin  job.Origin
	isRange bool
	dead    bool
	payload *string
	ownKey  *string // its idempotency key, if that is known
	how     job.Ended
	at      time.Time // zero if history has dropped it
}

func readEnded(ctx context.Context, tx pgx.Tx, k job.Key) (e ended, err error) {
	e.key = k
	err = tx.QueryRow(ctx, endedRun, k.Partition, k.Job, k.DueAt, k.Seq).
		Scan(&e.attempt, &e.origin, &e.isRange, &e.dead, &e.payload, &e.ownKey, &e.how, &e.at)
	if store.NoRows(err) { // the retention of history may have dropped it, but dead letters stay
		e.dead = true
		const deadLetter = `SELECT attempt, payload, idempotency_key FROM dead_letter WHERE ` + store.ByKey
		row := tx.QueryRow(ctx, deadLetter, k.Partition, k.Job, k.DueAt, k.Seq)
		err = row.Scan(&e.attempt, &e.payload, &e.ownKey)
	}
	if store.NoRows(err) {
		return e, stillLive(ctx, tx, k)
	}
	return e, err
}

// errRanAgain says that a run has run again since the user saw it. To users it is a conflict like others.
var errRanAgain error = ranAgainError{job.ErrConflict}

// ranAgainError is a conflict of its own.
type ranAgainError struct{ error }

func (e ranAgainError) Unwrap() error { return e.error }

func (e *ended) mayRetry(o job.RunParams, gone, deadOnly bool) error {
	switch {
	case deadOnly && !e.dead:
		return job.ErrNotFound
	case o.Attempt != nil && *o.Attempt != e.attempt:
		return fmt.Errorf(
			"%w: the run last ended with attempt %d, not %d; look at how that went", errRanAgain, e.attempt,
			*o.Attempt,
		)
	case !o.Began.IsZero() && e.at.After(o.Began):
		return fmt.Errorf("%w: it ended again after the operation began; look at how that went", job.ErrConflict)
	case !o.Began.IsZero() && e.how == job.EndedSucceeded && e.origin == job.FromRedrive:
		return fmt.Errorf("%w: it was retried and succeeded; to run it once more, retry it alone", job.ErrConflict)
	case gone:
		return fmt.Errorf("%w: the job is deleted, so the run has no target", job.ErrConflict)
	case e.isRange:
		return fmt.Errorf(
			"%w: it stands for a range of skipped occurrences; trigger the job, or backfill the range", job.ErrConflict,
		)
	default:
		return nil
	}
}

// stillLive returns why a run that has not ended cannot be retried.
func stillLive(ctx context.Context, tx pgx.Tx, k job.Key) error {
	const isLive = `SELECT EXISTS (SELECT FROM run WHERE ` + store.ByKey + `)`
	var live bool
	err := tx.QueryRow(ctx, isLive, k.Partition, k.Job, k.DueAt, k.Seq).Scan(&live)
	switch {
	case err != nil:
		return err
	case live:
		return fmt.Errorf("%w: the run is live", job.ErrConflict)
	default:
		return job.ErrNotFound
	}
}
