package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// activeOperation is an operation that this transaction works on.
type activeOperation struct {
	job.Operation
	namespace uuid.UUID
	until     time.Time
	now       time.Time
	at        string   // the position as it is stored
	mark      deadMark // the position in dead letters
	dueAt     time.Time
	nextAt    time.Time // identifies the batch: dueAt, or until when it is reserved
	failures  int
}

// deadMark is the last dead letter that an operation has read.
type deadMark struct {
	FailedAt time.Time `json:"failed_at"`
	Job      uuid.UUID `json:"job"`
	DueAt    time.Time `json:"due_at"`
	Seq      int16     `json:"seq"`
}

// The row lock is the lease: it ends with the transaction, also if the node dies. Namespaces take turns: the next one
// is the one after that of the last batch of this node.
const dueOperation = `
SELECT id, namespace_id, kind, filter, change, rate, failed_until, resume_after, next_at, failures, actor, now()
FROM operation
WHERE state = 'running' AND next_at <= now() AND belfry_clock_trusted()
ORDER BY namespace_id <= $1, namespace_id, next_at LIMIT 1 FOR UPDATE SKIP LOCKED`

// WorkOperation processes the next batch of an operation that is due, as much as its rate allows in a second, and
// reports whether there was one. Any number of nodes may call it at the same time. An operation that fails is
// postponed, so that it does not block others.
func (e *Engine) WorkOperation(ctx context.Context) (worked bool, err error) {
	var o activeOperation
	err = e.db.Tx(ctx, "work on an operation", func(tx pgx.Tx) error {
		if worked, err = o.take(ctx, tx, e.turn.Load()); err != nil || !worked {
			return err
		}
		if !o.Kind.OfDeadLetters() {
			return o.reserve(ctx, tx)
		}
		if o.at != "" {
			if err := json.Unmarshal([]byte(o.at), &o.mark); err != nil {
				return fmt.Errorf("read its mark: %w", err)
			}
		}
		// From here on the transaction is limited to the namespace.
		if err := store.Enter(ctx, tx, store.In(o.namespace, store.Lists)); err != nil {
			return err
		}
		return o.work(ctx, tx)
	})
	if worked {
		e.turn.Store(&o.namespace)
	}
	if err == nil && worked && !o.Kind.OfDeadLetters() {
		err = e.workItems(ctx, &o)
	}
	if err != nil && worked && ctx.Err() == nil {
		return false, errors.Join(fmt.Errorf("%s: %w", job.FormatOperationID(o.ID), err), e.postpone(ctx, &o, err))
	}
	return worked && err == nil, err
}

// take locks an operation that is due, of a namespace after the last one, and reads it. It returns false if there is
// none.
func (o *activeOperation) take(ctx context.Context, tx pgx.Tx, last *uuid.UUID) (bool, error) {
	if last == nil {
		last = &uuid.Nil
	}
	var filter, change string
	err := tx.QueryRow(ctx, dueOperation, last).Scan(
		&o.ID, &o.namespace, &o.Kind, &filter, &change, &o.Rate, &o.until, &o.at, &o.nextAt, &o.failures, &o.Actor, &o.now,
	)
	if store.NoRows(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o.dueAt = o.nextAt
	return true, readOperation(&o.Operation, filter, change)
}

// The condition on next_at lets only one of several nodes that failed at the same batch write.
const postpone = `
UPDATE operation SET failures = $3, problem = $4, next_at = now() + $5::interval,
    state = CASE WHEN $6 THEN 'failed' ELSE state END, ended_at = CASE WHEN $6 THEN now() END
WHERE id = $1 AND next_at = $2 AND state = 'running'`

// postpone delays an operation that failed, or ends it after too many failures. The text of the error is only logged,
// because it may reveal data of other namespaces.
func (e *Engine) postpone(ctx context.Context, o *activeOperation, failed error) error {
	failures := o.failures + 1
	wait, giveUp := job.AfterFailure(failures)
	problem := "a node could not work on it"
	if state := store.Code(failed); state != "" {
		problem += fmt.Sprintf(" (the database's error %s)", state)
	}
	if giveUp {
		problem += fmt.Sprintf(", %d times in a row; what it has done stays done. The nodes' log says more:"+
			" fix the cause, and begin the operation again", failures)
	} else {
		problem += "; it is retried"
	}
	_, err := e.db.Exec(ctx, postpone, o.ID, o.nextAt, failures, problem, wait, giveUp)
	if err != nil {
		return fmt.Errorf("postpone operation %s: %w", job.FormatOperationID(o.ID), err)
	}
	return nil
}

func (o *activeOperation) work(ctx context.Context, tx pgx.Tx) error {
	keys, err := o.batch(ctx, tx)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		const finish = `
UPDATE operation SET state = 'finished', ended_at = now(), failures = 0, problem = NULL WHERE id = $1`
		_, err := tx.Exec(ctx, finish, o.ID)
		return err
	}
	done, err := changeDead(ctx, tx, o, keys)
	if errors.Is(err, errTooManyRuns) {
		return waitForFewerRuns(ctx, tx, o, reason(err))
	}
	if err != nil {
		return err
	}
	mark, err := toJSON(o.mark)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE operation SET done = done + $2, failed = failed + $3, resume_after = $4,
		failures = 0, problem = NULL, next_at = now() + interval '1 second' * $5::integer / rate WHERE id = $1`,
		o.ID, done, int64(len(keys))-done, mark, len(keys))
	return err
}

// batch reads the next dead letters and moves the mark past them.
func (o *activeOperation) batch(ctx context.Context, tx pgx.Tx) (keys []job.Key, err error) {
	args := deadArgs(o.namespace, o.Filter)
	args["after_failed"], args["after_job"] = o.mark.FailedAt, o.mark.Job
	args["after_due"], args["after_seq"] = o.mark.DueAt, o.mark.Seq
	args["until"], args["limit"] = o.until, o.Rate
	sql := deadBatch
	if o.Filter.Job != uuid.Nil {
		sql = deadBatchOfJob
	}
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	var k job.Key
	var failed time.Time
	_, err = pgx.ForEachRow(rows, []any{&k.Partition, &k.Job, &k.DueAt, &k.Seq, &failed}, func() error {
		keys = append(keys, k)
		o.mark = deadMark{failed, k.Job, k.DueAt, k.Seq}
		return nil
	})
	return keys, err
}
