package finish

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// maxDecided is how many attempts one transaction completes.
const maxDecided = 200

var (
	completeLock = statement("complete_lock")
	endRun       = statement("end")
	// endAttempt is endRun with the start of the attempt, and with whether it had an idempotency key.
	endAttempt = strings.NewReplacer("/* started */ claimed_at", "$11", "state <> 0 /* live */ THEN", "$12 THEN").Replace(endRun)
	buryRun    = statement("dead_letter")
	retryRuns  = statement("retry")
	acceptRun  = statement("accept")
)

// CompleteDecided writes what Decide makes of outcomes. It returns the runs to retry, and how many outcomes were
// fenced.
func (s *Store) CompleteDecided(
	ctx context.Context, done []job.Completion,
) (retries []job.Run, fenced int, err error) {
	d, err := s.Write(ctx, store.AsEngine, done)
	return d.retries, d.fenced, err
}

// Write is CompleteDecided in several transactions. If one fails, it returns the result of those before it.
func (s *Store) Write(ctx context.Context, enter store.Entrance, done []job.Completion) (all Written, err error) {
	for len(done) > 0 {
		part := done[:min(len(done), maxDecided)]
		done = done[len(part):]
		d, err := s.completeDecided(ctx, enter, part)
		if err != nil {
			return all, err
		}
		all.retries, all.fenced = append(all.retries, d.retries...), all.fenced+d.fenced
		all.Found = append(all.Found, d.Found...)
	}
	return all, nil
}

// Written is the result of a batch of outcomes.
type Written struct {
	retries []job.Run
	fenced  int
	Found   []foundAttempt
	pauses  []pause
	batch   pgx.Batch
	again   again
}

// again are runs that one statement makes pending again, by columns.
type again struct {
	keys     []job.Key
	runAt    []time.Time
	record   []*string // see retry.sql
	free     []bool
	deferred []*string
	began    []time.Time
}

// foundAttempt is an attempt that was not fenced, and how long it took.
type foundAttempt struct {
	job.Completion
	Took time.Duration
}

func (s *Store) completeDecided(ctx context.Context, enter store.Entrance, done []job.Completion) (d *Written, err error) {
	err = s.db.Tx(ctx, fmt.Sprintf("complete %d runs", len(done)), func(tx pgx.Tx) error {
		d = &Written{fenced: len(done)}
		// It fails while the clock is in doubt: a retry would be due at a wrong time.
		if err := enter.Begin(ctx, tx, `SELECT belfry_clock()`); err != nil {
			return err
		}
		SortCompletions(done)
		k, attempt := SplitCompletions(done)
		rows, err := tx.Query(ctx, completeLock, k.Partition, k.Job, k.DueAt, k.Seq, attempt, SessionsOf(done))
		if err != nil {
			return err
		}
		var n int
		var queue int32
		var policy *string
		var namespace *uuid.UUID
		var in Input
		var began time.Time
		var trace string
		var late time.Duration
		_, err = pgx.ForEachRow(rows, []any{
			&n, &in.Run.Attempt, &in.Run.FreeAttempts, &in.Run.Origin, &queue, &policy, &namespace, &in.Now, &began,
			&trace, &late,
		}, func() error {
			c := done[n-1]
			in.Run.Key, in.Outcome, in.Policy = c.Key, c.Outcome, job.ReadPolicy(policy)
			if policy == nil && in.Outcome.Kind != job.Succeeded { // the job is deleted: its runs are not retried
				in.Outcome = deletedOutcome(c.Outcome)
			}
			began, late = measuredStart(&c, began, late)
			d.fenced--
			d.Found = append(d.Found, foundAttempt{c, max(0, in.Now.Sub(began))})
			decision := Decide(in)
			if in.Outcome.NeedsKind != "" {
				d.batch.Queue(needKind, c.Key.Partition, in.Outcome.NeedsKind)
			}
			d.write(in, decision, began)
			d.output(in, namespace)
			if decision.Kind == Ends {
				store.LedgerOf(tx).Ended(queue, decision.Ended, decision.Reason, 1)
				store.LedgerOf(tx).Run(job.End{
					Key: c.Key, Attempt: c.Attempt, Ended: decision.Ended, Status: c.Outcome.Status, Late: late, Trace: trace,
				})
			}
			switch {
			case namespace != nil && decision.PauseJob:
				d.pauses = append(d.pauses, pause{*namespace, c.Key, 0})
			case namespace != nil && decision.CountFailure:
				d.pauses = append(d.pauses, pause{*namespace, c.Key, in.Policy.PauseAfterFailures})
			}
			return nil
		})
		if err != nil {
			return err
		}
		d.queueRetries()
		if d.fenced > 0 { // the node forgets the outcome
			d.batch.Queue(store.Confirm)
		}
		return tx.SendBatch(ctx, &d.batch).Close()
	})
	if err == nil {
		s.failing.add(d.pauses)
	}
	return d, err
}

// deletedOutcome is the outcome of an attempt whose job was deleted.
func deletedOutcome(o job.Outcome) job.Outcome {
	return job.Outcome{Kind: job.Cancelled, Reason: job.ReasonDeleted, Status: o.Status, Message: o.Message}
}

// measuredStart returns when an attempt began, and how late that was. It may have been claimed before.
func measuredStart(c *job.Completion, claimed time.Time, late time.Duration) (time.Time, time.Duration) {
	if more := c.Late - late; more > 0 {
		return claimed.Add(more), c.Late
	}
	return claimed, late
}

// needKind asks for an owner that has a kind of target, once.
const needKind = `UPDATE partition SET needs = array_append(needs, $2) WHERE id = $1 AND $2 <> ALL (needs)`

// AttemptRecord is what a run stores about an attempt that was not its last. The statement that stores it adds the
// start, the session and the name of the session.
type AttemptRecord struct {
	Attempt   int16           `json:"attempt"`
	StartedAt time.Time       `json:"started_at,omitzero"`
	EndedAt   time.Time       `json:"ended_at"`
	Outcome   job.OutcomeKind `json:"outcome"`
	Status    int             `json:"status,omitempty"`
	Message   string          `json:"message,omitempty"`
	Session   uuid.UUID       `json:"session,omitzero"`
	Node      string          `json:"node,omitempty"`
	Worker    bool            `json:"worker,omitempty"`
}

// write queues the statements of one decision on an attempt that began at an instant.
func (d *Written) write(in Input, decision Decision, began time.Time) {
	k, o := in.Run.Key, in.Outcome
	switch decision.Kind {
	case Retries:
		d.again.add(in, decision, began)
	case Waits:
		d.batch.Queue(acceptRun, k.Partition, k.Job, k.DueAt, k.Seq, decision.ReportBy, began)
	default:
		if decision.DeadLetter {
			d.batch.Queue(buryRun, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, string(decision.Reason), o.Message,
				int16(o.Status), job.Cause(decision.Reason, o.Status, o.Message), !o.NoKey)
		}
		status, message := int16(o.Status), o.Message
		if o.Result != "" && o.Kind == job.Succeeded {
			status, message = 0, "" // a worker's result replaces them
		}
		d.batch.Queue(endAttempt, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, int16(decision.Ended), status,
			string(decision.Reason), message, o.Result, began, !o.NoKey)
	}
}

// add notes a run that is to be pending again.
func (a *again) add(in Input, decision Decision, began time.Time) {
	o := in.Outcome
	var record, deferred *string
	if decision.Record {
		b, err := json.Marshal(AttemptRecord{
			Attempt: in.Run.Attempt, EndedAt: in.Now, Outcome: o.Kind, Status: o.Status, Message: o.Message,
		})
		if err == nil { // always: plain values marshal
			record = new(string(b))
		}
	}
	if decision.DeferredReason != "" {
		deferred = &decision.DeferredReason
	}
	a.keys, a.runAt = append(a.keys, in.Run.Key), append(a.runAt, decision.RunAt)
	a.record, a.free, a.deferred = append(a.record, record), append(a.free, decision.Free), append(a.deferred, deferred)
	a.began = append(a.began, began)
}

// queueRetries queues the statement that makes runs pending again. Workers find theirs by themselves.
func (d *Written) queueRetries() {
	a := &d.again
	if len(a.keys) == 0 {
		return
	}
	k := store.SplitKeys(a.keys)
	d.batch.Queue(retryRuns, k.Partition, k.Job, k.DueAt, k.Seq, a.runAt, a.record, a.free, a.deferred, a.began).
		Query(func(rows pgx.Rows) error {
			var n int
			var r job.Run
			var pulled bool
			left := make(map[job.RunKey]bool, len(a.keys))
			for i := range a.keys {
				left[a.keys[i].RunKey()] = true
			}
			_, err := pgx.ForEachRow(rows, []any{
				&n, &r.Version, &r.RunAt, &r.State, &r.Attempt, &r.FreeAttempts, &r.Priority, &r.Origin, &r.Queue,
				&r.ConcurrencyKey, &r.ConcurrencyMax, &pulled,
			}, func() error {
				r.Key = a.keys[n-1]
				delete(left, r.RunKey())
				if !pulled {
					d.retries = append(d.retries, r)
				}
				return nil
			})
			if err == nil && len(left) > 0 { // never: they are locked. Otherwise the node would forget them
				err = fmt.Errorf("%d of %d runs to retry were not found", len(left), len(a.keys))
			}
			return err
		})
}

// CompleteStatement ends runs that succeeded. Workers of several namespaces use it in a form of their own.
var CompleteStatement = statement("complete")

// ReportSucceeded counts runs that succeeded. If others were fenced, it may count the queue of one of them.
func (s *Store) ReportSucceeded(done []job.Completion, ends []job.End) {
	var l store.Ledger
	for i := range done {
		l.Ended(done[i].Queue, job.EndedSucceeded, job.ReasonNone, 1)
	}
	for _, end := range ends {
		l.Run(end)
	}
	s.db.Report(&l)
}

// reportEnds reports the ends of completions, except those that the transaction of found reported, for their spans.
// It may name fenced ones: a reader does not find these attempts in history.
func (s *Store) reportEnds(done []job.Completion, found []foundAttempt) {
	if !s.db.WantsEnds() {
		return
	}
	reported := make(map[job.RunKey]int16, len(found))
	for i := range found {
		reported[found[i].Key.RunKey()] = found[i].Attempt
	}
	var l store.Ledger
	for i := range done {
		if c := &done[i]; reported[c.Key.RunKey()] != c.Attempt {
			l.Run(c.Succeeded())
		}
	}
	s.db.Report(&l)
}

// CompleteSucceeded ends runs whose attempt succeeded. It returns how many were
// fenced: another attempt or session took over, and nothing changed.
func (s *Store) CompleteSucceeded(ctx context.Context, done []job.Completion) (fenced int, err error) {
	if len(done) == 0 {
		return 0, nil
	}
	SortCompletions(done)
	k, attempt := SplitCompletions(done)
	ended := 0
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.KeyLookups, store.HashJoin))
	batch.Queue(CompleteStatement, k.Partition, k.Job, k.DueAt, k.Seq, attempt, SessionsOf(done), LateOf(done)).
		Exec(func(tag pgconn.CommandTag) error {
			ended = int(tag.RowsAffected())
			return nil
		})
	if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
		return 0, fmt.Errorf("complete %d runs: %w", len(done), err)
	}
	s.ReportSucceeded(done[:ended], nil)
	if ended == len(done) {
		s.reportEnds(done, nil)
		return 0, nil
	}
	// The rest is fenced, or another transaction changed its row. Write locks in one statement and writes in
	// the next; what ended above is fenced there.
	d, err := s.Write(ctx, store.AsEngine, done)
	if err != nil {
		return 0, err // the caller retries, and then they are reported
	}
	s.reportEnds(done, d.Found)
	return d.fenced - ended, nil
}

// Ending is a run that ends without an attempt that says how it went.
type Ending struct {
	job.Key
	Queue  int32
	Now    time.Time
	Ended  job.Ended
	Reason job.Reason
}

// Add queues the statement that moves the run to history.
func (e Ending) Add(tx pgx.Tx, b *pgx.Batch) {
	b.Queue(endRun, e.Partition, e.Job, e.DueAt, e.Seq, e.Now, int16(e.Ended), int16(0), string(e.Reason), "", "")
	store.LedgerOf(tx).Ended(e.Queue, e.Ended, e.Reason, 1)
}
