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
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// activeOperation is an operation that is being worked on.
type activeOperation struct {
	job.Operation
	namespace uuid.UUID
	until     time.Time
	now       time.Time
	mark      deadMark
	nextAt    time.Time // as it was found
	failures  int
}

// deadMark is the last dead letter that an operation has looked at.
type deadMark struct {
	FailedAt time.Time `json:"failed_at"`
	Job      uuid.UUID `json:"job"`
	DueAt    time.Time `json:"due_at"`
	Seq      int16     `json:"seq"`
}

// The lock is the lease: it ends with the transaction, or with the node.
const dueOperation = `
SELECT id, namespace_id, kind, filter, rate, failed_until, resume_after, next_at, failures, now() FROM operation
WHERE state = 'running' AND next_at <= now() ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED`

// WorkOperation does the next batch of an operation that is due, a second's
// worth, and says whether there was one. Any number of nodes may call it. An
// operation that fails steps aside, so that it keeps no other from being worked on.
func (e *Engine) WorkOperation(ctx context.Context) (worked bool, err error) {
	var o activeOperation
	err = e.db.Tx(ctx, "work on an operation", func(tx pgx.Tx) error {
		var filter, mark string
		err := tx.QueryRow(ctx, dueOperation).Scan(&o.ID, &o.namespace, &o.Kind, &filter, &o.Rate, &o.until, &mark, &o.nextAt, &o.failures, &o.now)
		if noRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		worked = true
		if err := json.Unmarshal([]byte(filter), &o.Filter); err != nil {
			return fmt.Errorf("read its filter: %w", err)
		}
		if mark != "" {
			if err := json.Unmarshal([]byte(mark), &o.mark); err != nil {
				return fmt.Errorf("read its mark: %w", err)
			}
		}
		// From here on it is the namespace's transaction.
		if err := pool.Enter(ctx, tx, pool.In(o.namespace, pool.Lists)); err != nil {
			return err
		}
		return o.work(ctx, tx)
	})
	if err != nil && worked && ctx.Err() == nil {
		return false, errors.Join(fmt.Errorf("%s: %w", job.FormatOperationID(o.ID), err), e.postpone(ctx, &o, err))
	}
	return worked && err == nil, err
}

// Whoever failed at the same turn has said so already, or went on.
const postpone = `
UPDATE operation SET failures = $3, problem = $4, next_at = now() + $5::interval, state = CASE WHEN $6 THEN 'failed' ELSE state END, ended_at = CASE WHEN $6 THEN now() END
WHERE id = $1 AND next_at = $2 AND state = 'running'`

// postpone keeps an operation that failed back for a while, or for good. What the
// error says stays in the log: it may tell of what is none of the namespace's.
func (e *Engine) postpone(ctx context.Context, o *activeOperation, failed error) error {
	failures := o.failures + 1
	wait, giveUp := job.AfterFailure(failures)
	problem := "a node could not work on it"
	if state := Code(failed); state != "" {
		problem += fmt.Sprintf(" (the database's error %s)", state)
	}
	if giveUp {
		problem += fmt.Sprintf(", %d times in a row; what it has done stays done. The nodes' log says more: have it mended, and begin the operation again", failures)
	} else {
		problem += "; it is tried again"
	}
	_, err := e.db.Exec(ctx, postpone, o.ID, o.nextAt, failures, problem, wait, giveUp)
	if err != nil {
		return fmt.Errorf("keep operation %s back: %w", job.FormatOperationID(o.ID), err)
	}
	return nil
}

func (o *activeOperation) work(ctx context.Context, tx pgx.Tx) error {
	keys, err := o.batch(ctx, tx)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		_, err := tx.Exec(ctx, `UPDATE operation SET state = 'finished', ended_at = now(), failures = 0, problem = NULL WHERE id = $1`, o.ID)
		return err
	}
	done, err := changeDead(ctx, tx, o, keys)
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

// batch finds the next dead letters and moves the mark past them.
func (o *activeOperation) batch(ctx context.Context, tx pgx.Tx) (keys []job.Key, err error) {
	args := deadArgs(o.namespace, o.Filter)
	args["after_failed"], args["after_job"], args["after_due"], args["after_seq"] = o.mark.FailedAt, o.mark.Job, o.mark.DueAt, o.mark.Seq
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
