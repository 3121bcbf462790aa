package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// maxDecided is how many attempts one transaction decides about.
const maxDecided = 200

// lockedRuns finds the attempts named and locks their runs. A job that was
// deleted meanwhile has no policy left; its runs end by the defaults.
const lockedRuns = `
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at, unnest($4::smallint[]) AS seq,
           unnest($5::smallint[]) AS attempt, generate_subscripts($1::smallint[], 1) AS n
)
SELECT k.n, r.version, r.run_at, r.state, r.attempt, r.priority, r.origin, coalesce(j.policy, '{}'), now()
FROM k, LATERAL (
    SELECT * FROM run
    WHERE partition = k.partition AND job_id = k.job_id AND due_at = k.due_at AND seq = k.seq AND attempt = k.attempt AND state <> 0
    LIMIT 1 FOR UPDATE) r
LEFT JOIN LATERAL (SELECT policy FROM job WHERE partition = r.partition AND id = r.job_id LIMIT 1) j ON true`

// CompleteDecided lets job.Decide say what outcomes mean and carries it out. It
// returns the runs that are to be tried again, and how many were fenced.
func (s *Store) CompleteDecided(ctx context.Context, done []job.Completion) (retries []job.Run, fenced int, err error) {
	for len(done) > 0 {
		part := done[:min(len(done), maxDecided)]
		done = done[len(part):]
		r, n, err := s.completeDecided(ctx, part)
		if err != nil {
			return retries, fenced, err
		}
		retries, fenced = append(retries, r...), fenced+n
	}
	return retries, fenced, nil
}

func (s *Store) completeDecided(ctx context.Context, done []job.Completion) (retries []job.Run, fenced int, err error) {
	err = s.inTx(ctx, fmt.Sprintf("complete %d runs", len(done)), func(tx pgx.Tx) error {
		retries, fenced = nil, len(done)
		if _, err := tx.Exec(ctx, `SELECT `+keyLookups); err != nil {
			return err
		}
		k, attempt := splitCompletions(done)
		rows, err := tx.Query(ctx, lockedRuns, k.partition, k.job, k.dueAt, k.seq, attempt)
		if err != nil {
			return err
		}
		var batch pgx.Batch
		var n int
		var in job.DecideInput
		var policy string
		_, err = pgx.ForEachRow(rows, []any{&n, &in.Run.Version, &in.Run.RunAt, &in.Run.State, &in.Run.Attempt, &in.Run.Priority, &in.Run.Origin, &policy, &in.Now}, func() error {
			c := done[n-1]
			in.Run.Key, in.Outcome, in.Policy = c.Key, c.Outcome, job.Policy{}
			if err := json.Unmarshal([]byte(policy), &in.Policy); err != nil {
				return fmt.Errorf("read the policy of job %s: %w", c.Key.Job, err)
			}
			in.Policy = in.Policy.WithDefaults()
			fenced--
			if run, again := writeDecision(&batch, in, job.Decide(in)); again {
				retries = append(retries, run)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
	return retries, fenced, err
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
WITH ended AS (DELETE FROM run WHERE ` + byKey + ` RETURNING *)
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin, status, session_id, reason, message, attempts)
SELECT partition, seq, version, job_id, due_at, run_at, claimed_at, $5, $6, attempt, origin, $7, session_id, nullif($8, ''), nullif($9, ''), attempts FROM ended`

const buryRun = `
INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, payload)
SELECT partition, job_id, due_at, seq, $5, attempt, $6, $7, payload FROM run WHERE ` + byKey + `
ON CONFLICT (partition, job_id, due_at, seq) DO UPDATE SET failed_at = excluded.failed_at, attempt = excluded.attempt, reason = excluded.reason, message = excluded.message`

// What an attempt came to is kept with the run, the newest 20.
const retryRun = `
UPDATE run SET state = 0, run_at = $5, woken = true, session_id = NULL, claimed_at = NULL, expires_at = NULL,
    attempts = (SELECT jsonb_agg(a ORDER BY n) FROM (
        SELECT a, n FROM jsonb_array_elements(coalesce(attempts, '[]') || $6::jsonb) WITH ORDINALITY x (a, n) ORDER BY n DESC LIMIT 20) y)
WHERE ` + byKey

const waitRun = `
UPDATE run SET state = 2, expires_at = $5::timestamptz + $6::interval WHERE ` + byKey

const pauseJob = `
UPDATE job SET state = 2, paused_at = $3, updated_at = $3, note = $4 WHERE partition = $1 AND id = $2 AND state = 1`

// pauseFailing counts in history, and not in a column of the job: a success
// then costs nothing.
const pauseFailing = `
UPDATE job SET state = 2, paused_at = $3, updated_at = $3, note = $4
WHERE partition = $1 AND id = $2 AND state = 1 AND $5 <= (
    SELECT count(*) FROM (
        SELECT ended FROM run_history WHERE job_id = $2 AND ended IN (1, 2) ORDER BY due_at DESC, seq DESC LIMIT $5) h
    WHERE ended = 2)`

// attemptRecord is what is kept of an attempt that was not the last.
type attemptRecord struct {
	Attempt int16           `json:"attempt"`
	EndedAt time.Time       `json:"ended_at"`
	Outcome job.OutcomeKind `json:"outcome"`
	Status  int             `json:"status,omitempty"`
	Message string          `json:"message,omitempty"`
}

// writeDecision queues the statements of one decision. The run is returned if it is to be tried again.
func writeDecision(batch *pgx.Batch, in job.DecideInput, d job.Decision) (job.Run, bool) {
	k, o := in.Run.Key, in.Outcome
	switch d.Kind {
	case job.DecideRetry:
		record, err := json.Marshal([]attemptRecord{{in.Run.Attempt, in.Now, o.Kind, o.Status, o.Message}})
		if err != nil {
			record = []byte(`[]`) // cannot happen: plain values always marshal
		}
		batch.Queue(retryRun, k.Partition, k.Job, k.DueAt, k.Seq, d.RunAt, string(record))
		run := in.Run
		run.State, run.RunAt = job.Pending, d.RunAt
		return run, true
	case job.DecideWait:
		batch.Queue(waitRun, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, time.Duration(in.Policy.Timeout))
		return job.Run{}, false
	}
	if d.DeadLetter {
		batch.Queue(buryRun, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, string(d.Reason), o.Message)
	}
	batch.Queue(endRun, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, int16(d.Ended), int16(o.Status), string(d.Reason), o.Message)
	switch {
	case d.PauseJob:
		batch.Queue(pauseJob, k.Partition, k.Job, in.Now, "paused by Belfry: the target says that it is gone for ever (410)")
	case d.CountFailure:
		batch.Queue(pauseFailing, k.Partition, k.Job, in.Now, fmt.Sprintf("paused by Belfry: %d failed runs in a row", in.Policy.PauseAfterFailures), in.Policy.PauseAfterFailures)
	}
	return job.Run{}, false
}

// lostRuns finds attempts whose session is dead, and accepted ones whose target
// did not report in time. A dead session never comes back: Renew refuses it.
const lostRuns = `
SELECT partition, job_id, due_at, seq, attempt, session_id
FROM run
WHERE partition = ANY ($1) AND (
    state = 1 AND NOT EXISTS (SELECT FROM session WHERE id = run.session_id AND expires_at > now())
    OR state = 2 AND expires_at < now())
LIMIT $2`

// Rescue ends the attempts that nobody will report on any more, by job.Decide
// like any other outcome. It returns the runs that are to be tried again, and
// how many it found.
func (s *Store) Rescue(ctx context.Context, partitions []int16, limit int) (retries []job.Run, found int, err error) {
	var lost []job.Completion
	err = s.inTx(ctx, "find lost runs", func(tx pgx.Tx) error {
		lost = nil
		if _, err := tx.Exec(ctx, `SELECT `+keyLookups); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, lostRuns, partitions, limit)
		if err != nil {
			return err
		}
		c := job.Completion{Outcome: job.Outcome{Kind: job.Lost}}
		var session *uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&c.Key.Partition, &c.Key.Job, &c.Key.DueAt, &c.Key.Seq, &c.Attempt, &session}, func() error {
			c.Outcome.Message = "the target accepted the run and did not report in time"
			if session != nil {
				c.Outcome.Message = fmt.Sprintf("session %s died, or the run was not reported in time", session)
			}
			lost = append(lost, c)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	retries, _, err = s.CompleteDecided(ctx, lost)
	return retries, len(lost), err
}
