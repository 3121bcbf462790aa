package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// maxDecided is how many attempts one transaction completes.
const maxDecided = 200

var (
	completeLock = statement("complete_lock")
	endRun       = statement("end")
	endAttempt   = strings.Replace(endRun, "/* started */ claimed_at", "$11", 1) // with the start of the attempt
	buryRun      = statement("dead_letter")
	retryRuns    = statement("retry")
	acceptRun    = statement("accept")
)

// CompleteDecided writes what job.Decide makes of outcomes. It returns the runs to retry, and how many outcomes were
// fenced.
func (e *Engine) CompleteDecided(
	ctx context.Context, done []job.Completion,
) (retries []job.Run, fenced int, err error) {
	d, err := e.decide(ctx, asEngine, done)
	return d.retries, d.fenced, err
}

// decide is CompleteDecided in several transactions. If one fails, it returns the result of those before it.
func (e *Engine) decide(ctx context.Context, enter enterFunc, done []job.Completion) (all decided, err error) {
	for len(done) > 0 {
		part := done[:min(len(done), maxDecided)]
		done = done[len(part):]
		d, err := e.completeDecided(ctx, enter, part)
		if err != nil {
			return all, err
		}
		all.retries, all.fenced = append(all.retries, d.retries...), all.fenced+d.fenced
		all.found = append(all.found, d.found...)
	}
	return all, nil
}

// decided is the result of a batch of outcomes.
type decided struct {
	retries []job.Run
	fenced  int
	found   []foundAttempt // those that were not fenced
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

type foundAttempt struct {
	job.Completion
	took time.Duration
}

func (e *Engine) completeDecided(ctx context.Context, enter enterFunc, done []job.Completion) (d *decided, err error) {
	err = e.db.Tx(ctx, fmt.Sprintf("complete %d runs", len(done)), func(tx pgx.Tx) error {
		d = &decided{fenced: len(done)}
		// It fails while the clock is in doubt: a retry would be due at a wrong time.
		if err := enter.begin(ctx, tx, `SELECT belfry_clock()`); err != nil {
			return err
		}
		sortCompletions(done)
		k, attempt := splitCompletions(done)
		rows, err := tx.Query(ctx, completeLock, k.partition, k.job, k.dueAt, k.seq, attempt, sessionsOf(done))
		if err != nil {
			return err
		}
		var n int
		var queue int32
		var policy *string
		var namespace *uuid.UUID
		var in job.DecideInput
		var began time.Time
		var trace string
		var late time.Duration
		_, err = pgx.ForEachRow(rows, []any{
			&n, &in.Run.Attempt, &in.Run.FreeAttempts, &in.Run.Origin, &queue, &policy, &namespace, &in.Now, &began,
			&trace, &late,
		}, func() error {
			c := done[n-1]
			in.Run.Key, in.Outcome, in.Policy = c.Key, c.Outcome, readPolicy(policy)
			if policy == nil && in.Outcome.Kind != job.Succeeded { // the job is deleted: its runs are not retried
				in.Outcome = deletedOutcome(c.Outcome)
			}
			began, late = measuredStart(&c, began, late)
			d.fenced--
			d.found = append(d.found, foundAttempt{c, max(0, in.Now.Sub(began))})
			decision := job.Decide(in)
			if in.Outcome.NeedsKind != "" {
				d.batch.Queue(needKind, c.Key.Partition, in.Outcome.NeedsKind)
			}
			if c.OwnKey != "" {
				d.batch.Queue(keepKey, c.Key.Partition, c.Key.Job, c.Key.DueAt, c.Key.Seq, c.OwnKey)
			}
			d.write(in, decision, began)
			d.output(in, namespace)
			if decision.Kind == job.DecideFinish {
				pool.LedgerOf(tx).Ended(queue, decision.Ended, decision.Reason, 1)
				pool.LedgerOf(tx).Run(job.End{
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
			d.batch.Queue(pool.Confirm)
		}
		return tx.SendBatch(ctx, &d.batch).Close()
	})
	if err == nil {
		e.failing.add(d.pauses)
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

// readPolicy decodes the policy of a job; nil: the job is deleted. A policy that cannot be read counts as the default,
// so that it does not fail the other runs of the batch.
func readPolicy(text *string) (p job.Policy) {
	if text != nil && json.Unmarshal([]byte(*text), &p) != nil {
		p = job.Policy{}
	}
	return p.WithDefaults()
}

// sortCompletions sorts completions in the order in which every transaction locks runs, so that two transactions never
// wait for each other.
func sortCompletions(done []job.Completion) {
	slices.SortFunc(done, func(a, b job.Completion) int { return compareKeys(a.Key, b.Key) })
}

// sessionsOf returns the sessions that must have the attempts.
func sessionsOf(done []job.Completion) pgtype.FlatArray[pgtype.UUID] {
	out := make([]pgtype.UUID, len(done))
	for i, d := range done {
		out[i] = pgtype.UUID{Bytes: d.Session, Valid: true}
	}
	return out
}

// lateOf returns how long after their run times attempts started.
func lateOf(done []job.Completion) []time.Duration {
	out := make([]time.Duration, len(done))
	for i := range done {
		out[i] = done[i].Late
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

// keepKey stores the idempotency key that the first attempt used.
const keepKey = `UPDATE run SET idempotency_key = $5 WHERE ` + byKey + ` AND idempotency_key IS NULL`

// needKind asks for an owner that has a kind of target, once.
const needKind = `UPDATE partition SET needs = array_append(needs, $2) WHERE id = $1 AND $2 <> ALL (needs)`

// attemptRecord is what a run stores about an attempt that was not its last. The statement that stores it adds the
// start, the session and the name of the session.
type attemptRecord struct {
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
func (d *decided) write(in job.DecideInput, decision job.Decision, began time.Time) {
	k, o := in.Run.Key, in.Outcome
	switch decision.Kind {
	case job.DecideRetry:
		d.again.add(in, decision, began)
	case job.DecideWait:
		d.batch.Queue(acceptRun, k.Partition, k.Job, k.DueAt, k.Seq, decision.ReportBy, began)
	default:
		if decision.DeadLetter {
			d.batch.Queue(buryRun, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, string(decision.Reason), o.Message,
				int16(o.Status), job.Cause(decision.Reason, o.Status, o.Message))
		}
		status, message := int16(o.Status), o.Message
		if o.Result != "" && o.Kind == job.Succeeded {
			status, message = 0, "" // a worker's result replaces them
		}
		d.batch.Queue(endAttempt, k.Partition, k.Job, k.DueAt, k.Seq, in.Now, int16(decision.Ended), status,
			string(decision.Reason), message, o.Result, began)
	}
}

// add notes a run that is to be pending again.
func (a *again) add(in job.DecideInput, decision job.Decision, began time.Time) {
	o := in.Outcome
	var record, deferred *string
	if decision.Record {
		b, err := json.Marshal(attemptRecord{
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
func (d *decided) queueRetries() {
	a := &d.again
	if len(a.keys) == 0 {
		return
	}
	k := splitKeys(a.keys)
	d.batch.Queue(retryRuns, k.partition, k.job, k.dueAt, k.seq, a.runAt, a.record, a.free, a.deferred, a.began).
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
