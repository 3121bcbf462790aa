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

var (
	admitRun  = statement("admit")
	admitRest = statement("admit_rest")
)

const liveOfJob = `
SELECT due_at, seq, queue_id, attempt, coalesce(trace, '') FROM run
WHERE partition = $1 AND job_id = $2 AND state <> 0 /* live */ FOR UPDATE`

// Admit decides about one run that Claim left. The policy may say start, wait
// (then the result is empty, as for a run that is gone), skip, or replace. A run
// that may start needs a permit of each limit that it falls under. Nothing is
// decided before the run is due: what it overlaps with may end by then.
func (e *Engine) Admit(
	ctx context.Context, session uuid.UUID, key job.Key, lead time.Duration,
) (out job.Admitted, err error) {
	err = e.db.Tx(ctx, "admit", func(tx pgx.Tx) error {
		a := admission{tx: tx, key: key, session: session}
		err := a.read(ctx, lead)
		if noRows(err) {
			// Claimed, gone, or not ours; or a change of the job has locked it, and Admit has to be called again.
			out, err = a.rest(ctx, lead)
			return err
		}
		if err != nil {
			return err
		}
		if err := e.admit(ctx, &a); err != nil {
			out = job.Admitted{Refusal: a.refusal}
			return err
		}
		out = job.Admitted{Done: a.done}
		if a.started != nil {
			out.Attempt = &a.started.Attempt
		}
		return nil
	})
	if errors.Is(err, errNoPermit) {
		return out, nil
	}
	if err == nil && out.Attempt != nil {
		err = e.prepare(ctx, asEngine, []*job.Attempt{out.Attempt})
	}
	if err != nil {
		return job.Admitted{}, err
	}
	return out, nil
}

// errNoPermit undoes an admission: a run that replaces others and gets no permit
// must not end them.
var errNoPermit = errors.New("no permit")

// admission is one run on its way to a decision.
type admission struct {
	tx      pgx.Tx
	key     job.Key
	session uuid.UUID
	pulled  bool // by a worker

	in        job.AdmitInput
	address   string
	handler   string
	candidate job.Candidate
	limited   bool // it falls under a limit

	started *job.Claimed // nil: it was not
	done    bool         // no further question is needed
	refusal job.Refusal
}

// rest is the result for a run that read did not find.
func (a *admission) rest(ctx context.Context, lead time.Duration) (out job.Admitted, err error) {
	var at time.Time
	var soon bool
	k := a.key
	err = a.tx.QueryRow(ctx, admitRest, k.Partition, k.Job, k.DueAt, k.Seq, lead).Scan(&at, &soon)
	switch {
	case noRows(err):
		return job.Admitted{Done: true}, nil
	case err != nil || soon:
		return out, err
	}
	return job.Admitted{Done: true, RunAt: at}, nil
}

// read locks the run and reads what the decision needs, or returns pgx.ErrNoRows.
func (a *admission) read(ctx context.Context, lead time.Duration) error {
	lock := `SELECT pg_advisory_xact_lock_shared($1), ` + string(pool.KeyLookups)
	if _, err := a.tx.Exec(ctx, lock, lockOf(a.session)); err != nil {
		return err
	}
	k, in, c := a.key, &a.in, &a.candidate
	var policy string
	err := a.tx.QueryRow(ctx, admitRun, k.Partition, k.Job, k.DueAt, k.Seq, a.session, lead, a.pulled).Scan(
		&a.address, &c.RunAt, &in.Attempt, &in.Deferred, &in.Origin, &c.Priority, &c.Queue, &c.Key, &c.KeyMax,
		&a.limited, &a.handler, &in.JobState, &policy, &in.Now, &in.Running, &in.Busy, &in.Ahead)
	if err != nil {
		return err
	}
	var p job.Policy
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return err
	}
	p = p.WithDefaults()
	in.DueAt, in.Overlap, in.Deadline = k.DueAt, p.Overlap, p.Deadline
	return nil
}

// admit asks job.Admit and carries the verdict out.
func (e *Engine) admit(ctx context.Context, a *admission) error {
	k, now := a.key, a.in.Now
	if a.candidate.RunAt.After(now) {
		return nil // claimed a little before its time, but decided when it is due
	}
	verdict := job.Admit(a.in)
	switch verdict.Verdict {
	case job.AdmitWait:
		return nil
	case job.AdmitSkip:
		a.done = true
		pool.LedgerOf(a.tx).Ended(a.candidate.Queue, job.EndedSkipped, verdict.Reason, 1)
		_, err := a.tx.Exec(ctx, endRun, k.Partition, k.Job, k.DueAt, k.Seq, now, int16(job.EndedSkipped), int16(0),
			string(verdict.Reason), "", "")
		return err
	case job.AdmitReplace: // which frees their permits
		if err := cancelLive(ctx, a.tx, k, now, verdict.Reason); err != nil {
			return err
		}
	}
	run := permitCandidate{a.candidate, k}
	var p permit
	if a.limited {
		permits, err := e.grantPermits(ctx, a.tx, a.session, []permitCandidate{run})
		if err != nil {
			return err
		}
		if p = permits[0]; !p.granted() {
			a.refusal = p.Refusal
			return errNoPermit
		}
	}
	var s start
	s.add(a.address, a.session, &run, &p)
	started, err := s.run(ctx, a.tx)
	if err != nil {
		return err
	}
	if len(started) != 1 {
		return errors.New("the admitted run is gone although its row is locked")
	}
	a.started, a.done = &started[0], true
	return nil
}

// cancelLive ends the live runs of a job. Their attempts may still be under way;
// what they report is fenced.
func cancelLive(ctx context.Context, tx pgx.Tx, key job.Key, now time.Time, reason job.Reason) error {
	rows, err := tx.Query(ctx, liveOfJob, key.Partition, key.Job)
	if err != nil {
		return err
	}
	var batch pgx.Batch
	k := key
	var queue int32
	var attempt int16
	var trace string
	_, err = pgx.ForEachRow(rows, []any{&k.DueAt, &k.Seq, &queue, &attempt, &trace}, func() error {
		batch.Queue(endRun, k.Partition, k.Job, k.DueAt, k.Seq, now, int16(job.EndedCancelled), int16(0),
			string(reason), "", "")
		pool.LedgerOf(tx).Ended(queue, job.EndedCancelled, reason, 1)
		pool.LedgerOf(tx).Run(job.End{Key: k, Attempt: attempt, Ended: job.EndedCancelled, Trace: trace})
		return nil
	})
	if err != nil {
		return err
	}
	return tx.SendBatch(ctx, &batch).Close()
}
