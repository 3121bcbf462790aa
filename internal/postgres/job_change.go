package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// errMoved: the job got another cursor between the statement that read its cursor and the one that locked it.
var errMoved = fmt.Errorf("%w: the job is changed by others all the time", ErrConflict)

// maxTries bounds the transactions of one change. Each failed try means that another transaction succeeded.
const maxTries = 20

// retrying runs work in a transaction for a namespace, and repeats it after a conflict with another transaction.
func (a *API) retrying(ctx context.Context, namespace uuid.UUID, what string, work func(pgx.Tx) error) error {
	work = a.step.around(ctx, work)
	for try := 1; ; try++ {
		err := a.db.Tx(ctx, pool.In(namespace, pool.KeyLookups), what, work)
		code := Code(err)
		again := errors.Is(err, errMoved) || code == deadlockDetected || code == "40001" // serialization failure
		if !again || try == maxTries || ctx.Err() != nil {
			return err
		}
	}
}

// change is a job that is being changed. Every change takes its locks in one order: cursors by their ids, the job, its
// runs to come. Plan locks cursors and writes only their jobs, and claim waits for no lock, so there is no deadlock.
type change struct {
	tx     pgx.Tx
	log    auditLog
	order  job.ChangeParams
	job    jobRow
	cursor cursor
	now    time.Time
}

// lockJob locks a job with its cursor (and another one that it may move to) and some of its runs (lockToCome or
// lockAllRuns), and then reads the clock once. An instant from before the wait for a lock would lie before changes,
// runs and completions that are visible after the wait, and would undo them. From then on, no run that is due later can
// be claimed or completed.
func (a *API) lockJob(
	ctx context.Context, tx pgx.Tx, o job.ChangeParams, lockRuns string, also ...int64,
) (*change, map[int64]cursor, error) {
	partition := job.PartitionOf(o.ID)
	at, err := cursorOf(ctx, tx, o)
	if err != nil {
		return nil, nil, err
	}
	cursors, err := lockCursors(ctx, tx, partition, append(also, at))
	if err != nil {
		return nil, nil, err
	}
	rows, err := tx.Query(ctx, selectJob+whereJob+` FOR UPDATE`, partition, o.ID, o.Namespace)
	if err != nil {
		return nil, nil, err
	}
	c := &change{tx: tx, log: a.log, order: o}
	if c.job, err = collectJob(rows); err != nil {
		return nil, nil, err
	}
	c.job.NextDue = c.job.nextDue()
	var ok bool
	if c.cursor, ok = cursors[c.job.cursor]; !ok {
		return nil, nil, errMoved
	}
	c.cursor = c.cursor.of(o.ID)
	if !o.Fits(c.job.Job) {
		return nil, nil, fmt.Errorf(
			"%w: the job has version %d and was changed since it was read", ErrConflict, c.job.Version,
		)
	}
	return c, cursors, c.readClock(ctx, lockRuns)
}

// lockToCome locks the runs by schedule that are still to come, and returns the latest due time of those that were
// started. The start of the transaction is early enough for "to come". Runs due earlier are left to be completed.
const lockToCome = `
SELECT max(due_at) FILTER (WHERE state <> 0 /* live */ OR attempt > 0)
FROM (SELECT due_at, state, attempt FROM run
      WHERE partition = $1 AND job_id = $2 AND seq = 0 AND due_at > now()
      ORDER BY due_at FOR UPDATE) r`

// lockAllRuns is lockToCome, but locks all runs of the job. A change of the definition needs it: an attempt that is
// being completed may make its run pending again, as the job was before, and the next statement of the change must see
// that run.
const lockAllRuns = `
SELECT max(due_at) FILTER (WHERE seq = 0 AND due_at > now() AND (state <> 0 /* live */ OR attempt > 0))
FROM (SELECT due_at, seq, state, attempt FROM run
      WHERE partition = $1 AND job_id = $2
      ORDER BY due_at, seq FOR UPDATE) r`

// maxAhead is how far the instant of a change may lie ahead of the clock. A later instant was written by a wrong clock.
const maxAhead = 10 * time.Second

// readClock determines the instant of the change. It is the time of the database, but after the job's last change even
// if the clock went back a little, and not before the due time of a run that was started. Runs are claimed shortly
// before they are due, and a change must not take away a run that was started.
func (c *change) readClock(ctx context.Context, lockRuns string) error {
	var started *time.Time
	var clock time.Time
	var batch pgx.Batch
	batch.Queue(lockRuns, c.job.Partition, c.job.ID).QueryRow(func(row pgx.Row) error { return row.Scan(&started) })
	batch.Queue(readClock).QueryRow(func(row pgx.Row) error { return row.Scan(&clock) })
	if err := c.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	c.now = clock.UTC()
	for _, t := range []time.Time{c.job.UpdatedAt.Add(instant), deref(started)} {
		if t.Sub(clock) <= maxAhead {
			c.now = later(c.now, t.UTC())
		}
	}
	return nil
}

// nextDue returns when the job is due next, after its change was written.
func (c *change) nextDue(ctx context.Context, in job.NextDueInput) (time.Time, error) {
	const pending = `SELECT ` + firstPending + ` FROM (SELECT $1::smallint AS partition, $2::uuid AS id) j`
	err := c.tx.QueryRow(ctx, pending, c.job.Partition, c.job.ID).Scan(&in.Pending)
	return job.NextDue(in), err
}

// readClock reads the clock for a change. It fails while the clock is in doubt: the change would plan runs by it.
const readClock = `SELECT belfry_clock()`

// now reads the database's clock.
func (a *API) now(ctx context.Context, namespace uuid.UUID) (now time.Time, err error) {
	err = a.db.Query(ctx, pool.In(namespace), func(rows pgx.Rows) error {
		now, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
		return err
	}, `SELECT clock_timestamp()`)
	return now, err
}

// cursorOf returns the cursor of a job, without a lock.
func cursorOf(ctx context.Context, tx pgx.Tx, o job.ChangeParams) (cursor int64, err error) {
	row := tx.QueryRow(ctx, `SELECT j.cursor_id FROM job j `+whereJob, job.PartitionOf(o.ID), o.ID, o.Namespace)
	err = row.Scan(&cursor)
	if noRows(err) {
		return 0, ErrNotFound
	}
	return cursor, err
}

// changeJob locks a job and lets work change it.
func (a *API) changeJob(ctx context.Context, what string, o job.ChangeParams, work func(*change) error) error {
	return a.retrying(ctx, o.Namespace, what+" "+job.FormatJobID(o.ID), func(tx pgx.Tx) error {
		c, _, err := a.lockJob(ctx, tx, o, lockToCome)
		if err != nil {
			return err
		}
		return work(c)
	})
}

// actor returns the actor of the change, as columns and versions store it.
func (c *change) actor() string { return cmp.Or(c.order.Actor, itself) }

// orNull returns nil for the zero time.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func deref(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
