package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// maxDecided is how many attempts one transaction decides about.
const maxDecided = 200

// lockedRuns finds the attempts named and locks their runs. What is tried again is so as the job is now.
const lockedRuns = `
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at, unnest($4::smallint[]) AS seq,
           unnest($5::smallint[]) AS attempt, unnest($6::uuid[]) AS session_id, generate_subscripts($1::smallint[], 1) AS n
)
SELECT k.n, coalesce(j.version, r.version), r.run_at, r.state, r.attempt, coalesce(r.free_attempts, 0),
    coalesce(j.priority, r.priority), r.origin, coalesce(j.queue_id, r.queue_id), coalesce(j.concurrency_key, 0),
    coalesce(j.concurrency_max, 0), j.policy, j.namespace_id, j.handler, now()
FROM k, LATERAL (
    SELECT * FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq AND attempt = k.attempt AND state <> 0 AND (k.session_id IS NULL OR session_id = k.session_id)
    LIMIT 1 FOR UPDATE) r
LEFT JOIN LATERAL (SELECT * FROM job WHERE partition = r.partition AND id = r.job_id LIMIT 1) j ON true`

// CompleteDecided lets job.Decide say what outcomes mean and carries it out. It
// returns the runs that are to be tried again, and how many were fenced.
func (e *Engine) CompleteDecided(ctx context.Context, done []job.Completion) (retries []job.Run, fenced int, err error) {
	for len(done) > 0 {
		part := done[:min(len(done), maxDecided)]
		done = done[len(part):]
		d, err := e.completeDecided(ctx, part)
		if err != nil {
			return retries, fenced, err
		}
		retries, fenced = append(retries, d.retries...), fenced+d.fenced
		// Pausing locks the job's cursor first, so it cannot be done above. A node
		// that dies in between leaves it to the next failure.
		for _, p := range d.pauses {
			if err := e.pauseFailing(ctx, p); err != nil {
				return retries, fenced, err
			}
		}
	}
	return retries, fenced, nil
}

// decided is what became of a batch of outcomes.
type decided struct {
	retries []job.Run
	fenced  int
	found   []job.Completion // those that were not
	pauses  []pause
	batch   pgx.Batch
}

// pause is a job that failed: to be paused, if so many runs in a row have.
type pause struct {
	namespace uuid.UUID
	key       job.Key
	after     int32 // 0: at once
}

func (e *Engine) completeDecided(ctx context.Context, done []job.Completion) (d *decided, err error) {
	err = e.db.Tx(ctx, fmt.Sprintf("complete %d runs", len(done)), func(tx pgx.Tx) error {
		d = &decided{fenced: len(done)}
		if _, err := tx.Exec(ctx, pool.Apply(pool.KeyLookups)); err != nil {
			return err
		}
		sortCompletions(done)
		k, attempt := splitCompletions(done)
		rows, err := tx.Query(ctx, lockedRuns, k.partition, k.job, k.dueAt, k.seq, attempt, sessionsOf(done))
		if err != nil {
			return err
		}
		var n int
		var handler *string
		var in job.DecideInput
		var policy *string
		var namespace *uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&n, &in.Run.Version, &in.Run.RunAt, &in.Run.State, &in.Run.Attempt, &in.Run.FreeAttempts, &in.Run.Priority, &in.Run.Origin, &in.Run.Queue, &in.Run.ConcurrencyKey, &in.Run.ConcurrencyMax, &policy, &namespace, &handler, &in.Now}, func() error {
			in.Run.Key, in.Outcome, in.Policy = done[n-1].Key, done[n-1].Outcome, job.Policy{}
			d.fenced--
			d.found = append(d.found, done[n-1])
			if policy == nil { // the job is deleted: nothing of it is tried again
				if in.Outcome.Kind != job.Succeeded {
					in.Outcome = job.Outcome{Kind: job.Cancelled, Reason: job.ReasonDeleted, Status: in.Outcome.Status, Message: in.Outcome.Message}
				}
			} else if json.Unmarshal([]byte(*policy), &in.Policy) != nil {
				in.Policy = job.Policy{} // one that cannot be read must not keep the others of the batch from ending
			}
			in.Policy = in.Policy.WithDefaults()
			decision := job.Decide(in)
			if own := done[n-1].OwnKey; own != "" {
				d.batch.Queue(keepKey, in.Run.Partition, in.Run.Job, in.Run.DueAt, in.Run.Seq, own)
			}
			d.write(in, decision, handler)
			d.output(in, namespace)
			if decision.Kind == job.DecideFinish {
				pool.LedgerOf(tx).Ended(decision.Ended, decision.Reason, 1)
			}
			switch {
			case namespace != nil && decision.PauseJob:
				d.pauses = append(d.pauses, pause{*namespace, in.Run.Key, 0})
			case namespace != nil && decision.CountFailure:
				d.pauses = append(d.pauses, pause{*namespace, in.Run.Key, in.Policy.PauseAfterFailures})
			}
			return nil
		})
		if err != nil {
			return err
		}
		return tx.SendBatch(ctx, &d.batch).Close()
	})
	return d, err
}

// failuresInARow counts in history, and not in a column of the job: a success
// then costs nothing. What was before the job's last change does not count, so
// a resumed job has all its failures before it again.
const failuresInARow = `
SELECT count(*) FROM (
    SELECT h.ended FROM run_history h JOIN job j ON j.partition = $1 AND j.id = $2
    WHERE h.job_id = $2 AND h.ended IN (1, 2) AND h.ended_at > j.updated_at
    ORDER BY h.due_at DESC, h.seq DESC LIMIT $3) newest
WHERE ended = 2`

func (e *Engine) pauseFailing(ctx context.Context, p pause) error {
	note := "paused by Belfry: the target says that it is gone for ever (410)"
	if p.after > 0 {
		var n int32
		if err := e.db.QueryRow(ctx, failuresInARow, p.key.Partition, p.key.Job, p.after).Scan(&n); err != nil {
			return fmt.Errorf("count failures: %w", err)
		}
		if n < p.after {
			return nil
		}
		note = fmt.Sprintf("paused by Belfry: %d failed runs in a row", p.after)
	}
	_, err := e.api.PauseJob(ctx, job.ChangeParams{Namespace: p.namespace, ID: p.key.Job}, note)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// sortCompletions brings them into the order in which runs are locked
// everywhere, so that two transactions do not wait for each other.
func sortCompletions(done []job.Completion) {
	slices.SortFunc(done, func(a, b job.Completion) int { return compareKeys(a.Key, b.Key) })
}

func compareKeys(x, y job.Key) int {
	return cmp.Or(cmp.Compare(x.Partition, y.Partition), bytes.Compare(x.Job[:], y.Job[:]), x.DueAt.Compare(y.DueAt), cmp.Compare(x.Seq, y.Seq))
}

// sessionsOf are the sessions that have to have the attempts; null: any.
func sessionsOf(done []job.Completion) pgtype.FlatArray[pgtype.UUID] {
	out := make([]pgtype.UUID, len(done))
	for i, d := range done {
		out[i] = pgtype.UUID{Bytes: d.Session, Valid: d.Session != uuid.Nil}
	}
	return out
}

func splitCompletions(done []job.Completion) (keyColumns, []int16) {
	keys, attempt := make([]job.Key, len(done)), make([]int16, len(done))
	for i, d := range done {
		keys[i], attempt[i] = d.Key, d.Attempt
	}
	return splitKeys(keys), attempt
}

// byKey is the condition that names one run.
const byKey = `partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4`

const endRun = `
WITH ended AS (DELETE FROM run WHERE ` + byKey + ` RETURNING *), ` + freeHolds + `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin, status, session_id, queue_id, reason, message, attempts, idempotency_key)
SELECT partition, seq, version, job_id, due_at, run_at, claimed_at, $5, $6, attempt, origin, $7, session_id, queue_id, nullif($8, ''), nullif($9, ''), attempts, idempotency_key FROM ended`

const endWithResult = `
WITH ended AS (DELETE FROM run WHERE ` + byKey + ` RETURNING *), ` + freeHolds + `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin, status, session_id, queue_id, attempts, idempotency_key, result)
SELECT partition, seq, version, job_id, due_at, run_at, claimed_at, $5, $6, attempt, origin, 0, session_id, queue_id, attempts, idempotency_key, $7 FROM ended`

const buryRun = `
INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, payload, queue_id, idempotency_key)
SELECT partition, job_id, due_at, seq, $5, attempt, $6, $7, payload, queue_id, idempotency_key FROM run WHERE ` + byKey + `
ON CONFLICT (partition, job_id, due_at, seq) DO UPDATE SET failed_at = excluded.failed_at, attempt = excluded.attempt, reason = excluded.reason, message = excluded.message, idempotency_key = excluded.idempotency_key`

// asItsJob is a run that is to be tried again, as its job is now: a change could not change it while it was live, so that is done
// then, as updatePending does. Who pulls the run is said anew. The job may be gone: then the next claim ends the run.
// While it waits for its time it has no place of any limit.
const (
	asItsJob = `version = coalesce(j.version, run.version), priority = coalesce(j.priority, run.priority), admit = coalesce(j.admit, run.admit),
    queue_id = coalesce(j.queue_id, run.queue_id), concurrency_key = j.concurrency_key,
    concurrency_max = j.concurrency_max, handler = $7::text, needs_sweep = $7::text IS NULL,
    state = 0, run_at = $5, session_id = NULL, claimed_at = NULL, expires_at = NULL, queue_permit = NULL,
    key_permit = NULL`
	fromItsJob = `
FROM (SELECT) always LEFT JOIN LATERAL (SELECT version, priority, admit, queue_id, concurrency_key, concurrency_max FROM job WHERE partition = $1 AND id = $2 LIMIT 1) j ON true
WHERE ` + byKey
)

// What an attempt came to is kept with the run, the newest 20.
const retryRun = `
WITH ended AS (SELECT * FROM run WHERE ` + byKey + `), ` + freeHolds + `
UPDATE run SET ` + asItsJob + `, deferred_reason = NULL, percent = NULL, progress = NULL,
    free_attempts = CASE WHEN $8 THEN coalesce(free_attempts, 0) + 1 ELSE free_attempts END,
    attempts = (SELECT jsonb_agg(a ORDER BY n) FROM (
        SELECT a, n FROM jsonb_array_elements(coalesce(attempts, '[]') || $6::jsonb) WITH ORDINALITY x (a, n) ORDER BY n DESC LIMIT 20) y)` + fromItsJob

// The first attempt that had a key says what it is.
const keepKey = `UPDATE run SET idempotency_key = $5 WHERE ` + byKey + ` AND idempotency_key IS NULL`

// A deferred attempt does not count: free_attempts grows with attempt. There is one statement for each run, by its key:
// a join with a list of keys is quadratic as soon as the statistics of the live table are wrong, which is always.
// A run that a worker pulls now gets no deferred_reason: the old target's does not apply to it.
const deferRun = `
WITH ended AS (SELECT * FROM run WHERE ` + byKey + `), ` + freeHolds + `
UPDATE run SET ` + asItsJob + `, free_attempts = coalesce(free_attempts, 0) + 1,
    deferred_reason = CASE WHEN $7::text IS NULL THEN $6::text END` + fromItsJob

const waitRun = `
UPDATE run SET state = 2, expires_at = $5 WHERE ` + byKey

// attemptRecord is what is kept of an attempt that was not the last.
type attemptRecord struct {
	Attempt int16           `json:"attempt"`
	EndedAt time.Time       `json:"ended_at"`
	Outcome job.OutcomeKind `json:"outcome"`
	Status  int             `json:"status,omitempty"`
	Message string          `json:"message,omitempty"`
}

// write queues the statements of one decision.
func (d *decided) write(in job.DecideInput, decision job.Decision, handler *string) {
	k, o := in.Run.Key, in.Outcome
	switch decision.Kind {
	case job.DecideRetry:
		d.retry(in, decision, handler)
	case job.DecideWait:
		d.batch.Queue(waitRun, k.Partition, k.Job, k.DueAt, k.Seq, decision.ReportBy)
	default:
		if decision.DeadLetter {
			d.batch.Queue(buryRun, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, string(decision.Reason), o.Message)
		}
		if o.Result != "" {
			d.batch.Queue(endWithResult, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, int16(decision.Ended), o.Result)
			break
		}
		d.batch.Queue(endRun, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, int16(decision.Ended), int16(o.Status), string(decision.Reason), o.Message)
	}
}

// retry queues the statement that makes a run pending again.
func (d *decided) retry(in job.DecideInput, decision job.Decision, handler *string) {
	k, o := in.Run.Key, in.Outcome
	if decision.Record {
		record, err := json.Marshal([]attemptRecord{{in.Run.Attempt, in.Now, o.Kind, o.Status, o.Message}})
		if err != nil {
			record = []byte(`[]`) // cannot happen: plain values always marshal
		}
		d.batch.Queue(retryRun, k.Partition, k.Job, k.DueAt, k.Seq, decision.RunAt, string(record), handler, decision.Free)
	} else {
		d.batch.Queue(deferRun, k.Partition, k.Job, k.DueAt, k.Seq, decision.RunAt, decision.DeferredReason, handler)
	}
	if handler != nil {
		return // workers find it without help
	}
	run := in.Run
	run.State, run.RunAt = job.Pending, decision.RunAt
	if decision.Free {
		run.FreeAttempts++
	}
	d.retries = append(d.retries, run)
}
