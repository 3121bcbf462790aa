package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/store"
)

var (
	admitRuns = statement("admit")
	admitLive = statement("admit_live")
)

// Admit decides about runs that Claim left, in one transaction, and returns the
// result for each. The policy may say start, wait (then the result says nothing
// else), skip, or replace. A run that may start needs a permit of each limit that
// it falls under. Nothing is decided before a run is due: what it overlaps with may
// end by then.
//
// No two keys may belong to the same job: what is decided about one run changes
// what is right for the next.
func (e *Engine) Admit(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Admitted, error) {
	all := admissions{session: session, runs: make([]*admission, len(keys))}
	for i, k := range keys {
		all.runs[i] = &admission{key: k}
	}
	result := slices.Clone(all.runs)
	// Live runs are locked in the order in which completions lock them.
	slices.SortFunc(all.runs, func(a, b *admission) int { return store.CompareKeys(a.key, b.key) })
	if err := e.admitInTx(ctx, all, lead); err != nil {
		return nil, err
	}
	for _, a := range result {
		if !a.alone {
			continue
		}
		if err := e.admitInTx(ctx, admissions{session: session, runs: []*admission{a}}, lead); err != nil {
			return nil, err
		}
	}
	out, started := make([]job.Admitted, len(result)), make([]*job.Attempt, 0, len(result))
	for i, a := range result {
		if out[i] = a.out; a.started != nil {
			out[i].Attempt = &a.started.Attempt
			started = append(started, out[i].Attempt)
		}
	}
	return out, e.readContents(ctx, store.AsEngine, started)
}

// admitInTx decides about runs in a transaction of their own.
func (e *Engine) admitInTx(ctx context.Context, all admissions, lead time.Duration) error {
	err := e.db.Tx(ctx, "admit", func(tx pgx.Tx) error {
		all.tx = tx
		if err := all.read(ctx, lead); err != nil {
			return err
		}
		return e.admit(ctx, &all)
	})
	if errors.Is(err, errNoPermit) {
		return nil
	}
	return err
}

// errNoPermit undoes an admission: a run that replaces others and gets no permit
// must not end them.
var errNoPermit = errors.New("no permit")

// admission is one run on its way to a decision.
type admission struct {
	key       job.Key
	found     bool // and locked
	in        job.AdmitInput
	address   string
	handler   string
	candidate job.Candidate
	limited   bool // it falls under a limit
	// alone: it replaces runs under a limit, so that its transaction may have to be undone.
	alone   bool
	started *job.Claimed // nil: it was not
	out     job.Admitted
}

// admissions are runs of different jobs that one transaction decides about.
type admissions struct {
	tx      pgx.Tx
	session uuid.UUID
	pulled  bool // by a worker
	runs    []*admission
	now     time.Time // of the transaction
}

// read locks the runs and reads what the decisions need.
func (s *admissions) read(ctx context.Context, lead time.Duration) error {
	keys := make([]job.Key, len(s.runs))
	for i, a := range s.runs {
		keys[i] = a.key
	}
	k := store.SplitKeys(keys)
	var batch pgx.Batch
	batch.Queue(`SELECT pg_advisory_xact_lock_shared($1), `+string(store.KeyLookups), store.SessionLock(s.session))
	batch.Queue(
		admitRuns, k.Partition, k.Job, k.DueAt, k.Seq, s.session, lead, s.pulled, job.MaxQueued,
	).Query(func(rows pgx.Rows) error { return s.collect(rows) })
	return s.tx.SendBatch(ctx, &batch).Close()
}

func (s *admissions) collect(rows pgx.Rows) error {
	var a admission
	var n int
	var soon bool
	var at *time.Time
	var policy string
	in, c := &a.in, &a.candidate
	_, err := pgx.ForEachRow(rows, []any{
		&n, &a.found, &at, &soon, &in.Now, &a.address, &c.RunAt, &in.Attempt, &in.Deferred, &in.Origin, &c.Priority,
		&c.Queue, &c.Key, &c.KeyMax, &a.limited, &a.handler, &in.JobState, &policy, &in.Running, &in.Busy, &in.Ahead,
	}, func() error {
		to := s.runs[n]
		s.now, a.key = in.Now, to.key
		a.out = job.Admitted{}
		switch {
		case a.found:
			p := job.ReadPolicy(&policy)
			in.DueAt, in.Overlap, in.Deadline = a.key.DueAt, p.Overlap, p.Deadline
		case at == nil: // claimed, gone or not ours
			a.out.Done = true
		case !soon:
			a.out = job.Admitted{Done: true, RunAt: *at}
		default: // a change of the job has locked it, or a time without service is not decided yet
			a.out.Later = true
		}
		*to = a
		return nil
	})
	return err
}

// admit asks job.Admit about the runs that were found, and carries the verdicts out.
func (e *Engine) admit(ctx context.Context, s *admissions) error {
	var batch pgx.Batch
	var starts, replacing []*admission
	for _, a := range s.runs {
		if !a.found || a.candidate.RunAt.After(a.in.Now) {
			a.out.Later = a.found || a.out.Later // claimed a little before its time, but decided when it is due
			continue
		}
		switch verdict := job.Admit(a.in); verdict.Verdict {
		case job.AdmitWait:
			a.out.Expires = a.in.Expires()
		case job.AdmitSkip:
			a.out.Done = true
			s.end(&batch, a.key, a.candidate.Queue, job.EndedSkipped, verdict.Reason)
		case job.AdmitReplace:
			if a.limited && len(s.runs) > 1 {
				a.alone = true
				continue
			}
			replacing = append(replacing, a)
		case job.AdmitStart:
			starts = append(starts, a)
		}
	}
	replacing, err := s.endReplaced(ctx, &batch, replacing)
	if err != nil {
		return err
	}
	return e.startAdmitted(ctx, s, &batch, append(starts, replacing...))
}

func (s *admissions) end(batch *pgx.Batch, k job.Key, queue int32, how job.Ended, why job.Reason) {
	finish.Ending{Key: k, Queue: queue, Now: s.now, Ended: how, Reason: why}.Add(s.tx, batch)
}

// endReplaced ends the live runs of jobs, which frees their permits, and returns the
// runs that replace them. Their attempts may still be under way; what they report is
// fenced. If another transaction has a live run, Admit has to be called again.
func (s *admissions) endReplaced(ctx context.Context, batch *pgx.Batch, by []*admission) ([]*admission, error) {
	if len(by) == 0 {
		return nil, nil
	}
	keys := make([]job.Key, len(by))
	for i, a := range by {
		keys[i] = a.key
	}
	columns := store.SplitKeys(keys)
	rows, err := s.tx.Query(ctx, admitLive, columns.Partition, columns.Job)
	if err != nil {
		return nil, err
	}
	type liveRun struct {
		job.End
		queue int32
	}
	live := map[uuid.UUID][]liveRun{}
	r := liveRun{End: job.End{Ended: job.EndedCancelled}}
	_, err = pgx.ForEachRow(rows, []any{
		&r.Key.Partition, store.Raw(&r.Key.Job), &r.Key.DueAt, &r.Key.Seq, &r.queue, &r.Attempt, &r.Trace,
	}, func() error {
		live[r.Key.Job] = append(live[r.Key.Job], r)
		return nil
	})
	return slices.DeleteFunc(by, func(a *admission) bool {
		runs := live[a.key.Job]
		if len(runs) < a.in.Running {
			return true
		}
		for _, r := range runs {
			s.end(batch, r.Key, r.queue, r.Ended, job.ReasonReplaced)
			store.LedgerOf(s.tx).Run(r.End)
		}
		return false
	}), err
}

// startAdmitted sends the batch and starts the runs that get their permits.
func (e *Engine) startAdmitted(ctx context.Context, s *admissions, batch *pgx.Batch, runs []*admission) error {
	limited := slices.ContainsFunc(runs, func(a *admission) bool { return a.limited })
	if limited && batch.Len() > 0 { // permits that it frees may be granted
		if err := s.tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		batch = &pgx.Batch{}
	}
	permits, err := e.admitPermits(ctx, s, runs)
	if err != nil {
		return err
	}
	var start start
	of := make(map[job.RunKey]*admission, len(runs))
	for i, a := range runs {
		if p := &permits[i]; p.granted() {
			start.add(a.address, s.session, &permitCandidate{a.candidate, a.key}, p)
			of[a.key.RunKey()] = a
		} else {
			a.out.Refusal = p.Refusal
			if len(s.runs) == 1 {
				return errNoPermit
			}
		}
	}
	var started []job.Claimed
	start.queue(batch, &started)
	if batch.Len() == 0 {
		return nil
	}
	if err := s.tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if len(started) != len(of) {
		return errors.New("an admitted run is gone although its row is locked")
	}
	for i := range started {
		a := of[started[i].Key.RunKey()]
		a.started, a.out.Done = &started[i], true
	}
	return nil
}

// admitPermits grants permits to those of the runs that fall under a limit.
func (e *Engine) admitPermits(ctx context.Context, s *admissions, runs []*admission) ([]permit, error) {
	out := make([]permit, len(runs))
	var index []int
	var candidates []permitCandidate
	for i, a := range runs {
		if a.limited {
			index, candidates = append(index, i), append(candidates, permitCandidate{a.candidate, a.key})
		}
	}
	if len(candidates) == 0 {
		return out, nil
	}
	permits, err := e.grantPermits(ctx, s.tx, s.session, candidates)
	for i, p := range permits {
		out[index[i]] = p
	}
	return out, err
}
