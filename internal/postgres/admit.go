package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// admissible reads a pending run that needs a decision, with what else its job is doing.
const admissible = `
SELECT r.version, r.origin, r.run_at, r.attempt, coalesce(r.payload, j.payload, ''), j.namespace_id, j.state, j.timeout_ms, j.target_kind, j.target_config, j.policy, now(), coalesce(r.idempotency_key, ''), ` + forExpressions + `,
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
	admissiblePulled = admissible + ` AND r.handler IS NOT NULL AND r.queue_id = (SELECT queue_id FROM session WHERE id = $5) FOR UPDATE OF r SKIP LOCKED`
)

// undecided says whether a run that could not be read is done with, as far as this node goes.
const undecided = `
SELECT NOT EXISTS (SELECT FROM run WHERE ` + byKey + ` AND state = 0 AND handler IS NULL AND run_at <= now() + $5::interval + interval '5 s')`

const startRun = `
UPDATE run SET state = 1, attempt = attempt + 1, session_id = $5, claimed_at = now() WHERE ` + byKey

const liveOfJob = `
SELECT due_at, seq FROM run WHERE partition = $1 AND job_id = $2 AND state <> 0 FOR UPDATE`

// Admit decides about one run that Claim left: the policy may say start, wait
// (the result is empty then, as for a run that is gone), skip, or replace. It
// says whether the run is done with, so whether it need not be asked about again.
// Nothing is decided before the run is due: what it overlaps with may end by then.
func (s *Store) Admit(ctx context.Context, session uuid.UUID, key job.Key, lead time.Duration) (attempt *job.Attempt, done bool, err error) {
	err = s.inTx(ctx, "admit", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared($1), `+keyLookups, lockOf(session)); err != nil {
			return err
		}
		c, ok, err := admit(ctx, tx, admitOrder{admissibleHere, session, key, lead})
		attempt, done = nil, ok
		if c != nil {
			attempt = &c.Attempt
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return attempt, done, nil
}

// admitOrder is a run that is to be decided about.
type admitOrder struct {
	query   string // that reads it
	session uuid.UUID
	key     job.Key
	lead    time.Duration
}

// admit decides about a run in a transaction whose locks keep other runs of its
// job from being started.
func admit(ctx context.Context, tx pgx.Tx, o admitOrder) (attempt *job.Claimed, done bool, err error) {
	key := o.key
	a := job.Claimed{Attempt: job.Attempt{Key: key, Session: o.session}}
	in := job.AdmitInput{DueAt: key.DueAt}
	var policy, keyed string
	var timeout int64
	err = tx.QueryRow(ctx, o.query, key.Partition, key.Job, key.DueAt, key.Seq, o.session, o.lead).Scan(
		&a.Version, &a.Origin, &a.RunAt, &in.Attempt, &a.Payload, &a.Namespace, &in.JobState, &timeout, &a.Kind, &a.Config, &policy, &in.Now, &a.OwnKey, &keyed, &a.About, &in.Running, &in.Ahead, &a.JobName, &a.Handler)
	if noRows(err) {
		// Claimed, gone, or not ours; or a change of the job has it locked, and it is to be asked about again.
		err = tx.QueryRow(ctx, undecided, key.Partition, key.Job, key.DueAt, key.Seq, o.lead).Scan(&done)
		return nil, done, err
	}
	if err != nil {
		return nil, false, err
	}
	var p job.Policy
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return nil, false, err
	}
	p = p.WithDefaults()
	a.KeyExpression = keyExpression(keyed)
	in.Overlap, in.Deadline, in.Origin = p.Overlap, p.Deadline, a.Origin
	a.Number, a.Timeout, a.ClaimedAt = in.Attempt+1, time.Duration(timeout)*time.Millisecond, in.Now
	if a.RunAt.After(in.Now) {
		return nil, false, nil // claimed a little before its time, but decided when it is due
	}
	verdict := job.Admit(in)
	switch verdict.Verdict {
	case job.AdmitWait:
		return nil, false, nil
	case job.AdmitSkip:
		countEnds(tx, job.EndedSkipped, verdict.Reason, 1)
		_, err = tx.Exec(ctx, endRun, key.Partition, key.Job, key.DueAt, key.Seq, in.Now, int16(job.EndedSkipped), int16(0), string(verdict.Reason), "")
		return nil, true, err
	case job.AdmitReplace:
		if err := cancelLive(ctx, tx, key, in.Now, verdict.Reason); err != nil {
			return nil, false, err
		}
	}
	if _, err = tx.Exec(ctx, startRun, key.Partition, key.Job, key.DueAt, key.Seq, o.session); err != nil {
		return nil, false, err
	}
	return &a, true, nil
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
		countEnds(tx, job.EndedCancelled, reason, 1)
		return nil
	})
	if err != nil {
		return err
	}
	return tx.SendBatch(ctx, &batch).Close()
}
