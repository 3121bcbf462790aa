package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// admissible reads a pending run that needs a decision, with what else its job is doing.
const admissible = `
SELECT r.version, r.origin, r.run_at, r.attempt, r.priority, r.queue_id, coalesce(r.concurrency_key, 0), coalesce(r.concurrency_max, 1), r.concurrency_key IS NOT NULL OR coalesce((SELECT limited FROM queue WHERE id = r.queue_id), false),
       coalesce(r.payload, j.payload, ''), coalesce(r.trace, ''), j.namespace_id, j.state, j.timeout_ms, j.target_kind, j.target_config, j.policy, now(), coalesce(r.idempotency_key, ''), ` + forExpressions + `,
       (SELECT count(*) FROM run o WHERE o.partition = r.partition AND o.job_id = r.job_id AND o.state <> 0),
       (SELECT count(*) FROM run o WHERE o.partition = r.partition AND o.job_id = r.job_id AND o.state = 0 AND (o.due_at, o.seq) < (r.due_at, r.seq) AND o.run_at <= now() + $6::interval),
       j.name, coalesce(r.handler, '')
FROM run r JOIN job j ON j.partition = r.partition AND j.id = r.job_id
WHERE r.partition = $1 AND r.job_id = $2 AND r.due_at = $3 AND r.seq = $4 AND r.state = 0 AND r.run_at <= now() + $6::interval
  AND EXISTS (SELECT FROM session WHERE id = $5 AND expires_at > now())`

// Those that nodes deliver are admitted by the owner of their partition, those
// that workers pull by who has the lock of their queue.
const (
	admissibleHere   = admissible + ` AND r.handler IS NULL AND EXISTS (SELECT FROM partition WHERE id = $1 AND owner = $5) FOR UPDATE OF r SKIP LOCKED`
	admissiblePulled = admissible + ` AND coalesce(r.handler, '') <> '' AND r.queue_id IS NOT DISTINCT FROM (SELECT queue_id FROM session WHERE id = $5) FOR UPDATE OF r SKIP LOCKED`
)

// undecided says whether a run that could not be read is done with, as far as this node goes.
const undecided = `
SELECT NOT EXISTS (SELECT FROM run WHERE ` + byKey + ` AND state = 0 AND handler IS NULL AND run_at <= now() + $5::interval + interval '5 s')`

const startRun = `
UPDATE run SET state = 1, attempt = attempt + 1, session_id = $5, claimed_at = now(),
    queue_permit = $6, key_permit = $7
WHERE ` + byKey

const liveOfJob = `
SELECT due_at, seq FROM run WHERE partition = $1 AND job_id = $2 AND state <> 0 FOR UPDATE`

// Admit decides about one run that Claim left: the policy may say start, wait
// (the result is empty then, as for a run that is gone), skip, or replace. What
// may start needs a place under each limit that it falls under. Nothing is
// decided before the run is due: what it overlaps with may end by then.
func (e *Engine) Admit(ctx context.Context, session uuid.UUID, key job.Key, lead time.Duration) (out job.Admitted, err error) {
	err = e.db.Tx(ctx, "admit", func(tx pgx.Tx) error {
		a := admission{tx: tx, query: admissibleHere, attempt: job.Claimed{Attempt: job.Attempt{Key: key, Session: session}}}
		err := a.read(ctx, lead)
		if noRows(err) {
			// Claimed, gone, or not ours; or a change of the job has it locked, and it is to be asked about again.
			out = job.Admitted{}
			return tx.QueryRow(ctx, undecided, key.Partition, key.Job, key.DueAt, key.Seq, lead).Scan(&out.Done)
		}
		if err != nil {
			return err
		}
		if err := e.admit(ctx, &a); err != nil {
			out = job.Admitted{Refusal: a.refusal}
			return err
		}
		out = a.out
		return nil
	})
	if errors.Is(err, errNoPlace) {
		return out, nil
	}
	if err != nil {
		return job.Admitted{}, err
	}
	return out, nil
}

// errNoPlace undoes an admission: a run that replaces others and finds no place must not end them.
var errNoPlace = errors.New("no place")

// admission is a run that is to be decided about.
type admission struct {
	tx        pgx.Tx
	query     string // that reads it
	attempt   job.Claimed
	in        job.AdmitInput
	applicant job.Candidate
	limited   bool // it falls under a limit
	out       job.Admitted
	refusal   job.Refusal
}

func (a *admission) read(ctx context.Context, lead time.Duration) error {
	t, in, k := &a.attempt, &a.in, a.attempt.Key
	if _, err := a.tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared($1), `+string(pool.KeyLookups), lockOf(t.Session)); err != nil {
		return err
	}
	var policy, keyed string
	var timeout int64
	err := a.tx.QueryRow(ctx, a.query, k.Partition, k.Job, k.DueAt, k.Seq, t.Session, lead).Scan(
		&t.Version, &t.Origin, &t.RunAt, &in.Attempt, &a.applicant.Priority, &a.applicant.Queue, &a.applicant.Key, &a.applicant.KeyMax, &a.limited,
		&t.Payload, &t.Trace, &t.Namespace, &in.JobState, &timeout, &t.Kind, &t.Config, &policy, &in.Now, &t.OwnKey, &keyed, &t.About, &in.Running, &in.Ahead, &t.JobName, &t.Handler)
	if err != nil {
		return err
	}
	var p job.Policy
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return err
	}
	p = p.WithDefaults()
	t.KeyExpression = keyExpression(keyed)
	in.DueAt, in.Overlap, in.Deadline, in.Origin = k.DueAt, p.Overlap, p.Deadline, t.Origin
	t.Number, t.Timeout, t.ClaimedAt = in.Attempt+1, time.Duration(timeout)*time.Millisecond, in.Now
	a.applicant.RunAt = t.RunAt
	return nil
}

func (e *Engine) admit(ctx context.Context, a *admission) error {
	k, now := a.attempt.Key, a.in.Now
	if a.attempt.RunAt.After(now) {
		return nil // claimed a little before its time, but decided when it is due
	}
	verdict := job.Admit(a.in)
	switch verdict.Verdict {
	case job.AdmitWait:
		return nil
	case job.AdmitSkip:
		a.out.Done = true
		pool.LedgerOf(a.tx).Ended(job.EndedSkipped, verdict.Reason, 1)
		_, err := a.tx.Exec(ctx, endRun, k.Partition, k.Job, k.DueAt, k.Seq, now, int16(job.EndedSkipped), int16(0), string(verdict.Reason), "")
		return err
	case job.AdmitReplace: // which frees their places
		if err := cancelLive(ctx, a.tx, k, now, verdict.Reason); err != nil {
			return err
		}
	}
	var p place
	if a.limited {
		places, err := e.takePlaces(ctx, a.tx, a.attempt.Session, []permitCandidate{{a.applicant, k}})
		if err != nil {
			return err
		}
		if p = places[0]; !p.granted() {
			a.refusal = p.Refusal
			return errNoPlace
		}
		a.attempt.Limits = p.limits(&a.applicant)
	}
	_, err := a.tx.Exec(ctx, startRun, k.Partition, k.Job, k.DueAt, k.Seq, a.attempt.Session, p.queueHold, p.keyHold)
	a.out = job.Admitted{Attempt: &a.attempt.Attempt, Done: true}
	return err
}

// cancelLive ends the live runs of a job. Their attempts may still be under way;
// what they report is fenced.
func cancelLive(ctx context.Context, tx pgx.Tx, key job.Key, now time.Time, reason job.Reason) error {
	rows, err := tx.Query(ctx, liveOfJob, key.Partition, key.Job)
	if err != nil {
		return err
	}
	var batch pgx.Batch
	var due time.Time
	var seq int16
	_, err = pgx.ForEachRow(rows, []any{&due, &seq}, func() error {
		batch.Queue(endRun, key.Partition, key.Job, due, seq, now, int16(job.EndedCancelled), int16(0), string(reason), "")
		pool.LedgerOf(tx).Ended(job.EndedCancelled, reason, 1)
		return nil
	})
	if err != nil {
		return err
	}
	return tx.SendBatch(ctx, &batch).Close()
}
