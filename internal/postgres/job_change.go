package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// errMoved: between reading which cursor a job has and locking that, the job got another.
var errMoved = fmt.Errorf("%w: the job is changed by others all the time", ErrConflict)

// maxTries bounds the transactions of one change. Each lost try is another's success.
const maxTries = 20

// retrying runs work in a transaction for a namespace, and again if others were in the way.
func (a *API) retrying(ctx context.Context, namespace uuid.UUID, what string, work func(pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := a.db.Tx(ctx, pool.In(namespace, pool.KeyLookups), what, work)
		again := errors.Is(err, errMoved) || Code(err) == "40P01" || Code(err) == "40001" // deadlock, serialization failure
		if !again || try == maxTries || ctx.Err() != nil {
			return err
		}
	}
}

// change is a job that is being changed. Its locks are taken in one order:
// cursors by their ids, the job, its runs to come. Plan holds cursors, and writes
// jobs of those alone; claim waits for nothing; so nobody waits in a circle.
type change struct {
	tx     pgx.Tx
	order  job.ChangeParams
	job    jobRow
	cursor cursor
	now    time.Time
}

// lockJob locks a job with its cursor (and another one that it may move to) and
// its runs to come, and then reads the clock: once, and only now. An
// instant from before the wait for a lock would lie before changes, runs and
// completions that are visible behind the lock, and would undo them. After it,
// no run that is due later can have been completed, and none can be claimed.
func lockJob(ctx context.Context, tx pgx.Tx, o job.ChangeParams, also ...int64) (*change, map[int64]cursor, error) {
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
	c := &change{tx: tx, order: o}
	if c.job, err = collectJob(rows); err != nil {
		return nil, nil, err
	}
	c.job.NextDue = c.job.nextDue()
	var ok bool
	if c.cursor, ok = cursors[c.job.cursor]; !ok {
		return nil, nil, errMoved
	}
	if !o.Fits(c.job.Job) {
		return nil, nil, fmt.Errorf("%w: the job has version %d and was changed since it was read", ErrConflict, c.job.Version)
	}
	return c, cursors, c.readClock(ctx)
}

// lockRuns locks the runs by schedule that are still to come, and tells which of
// those that were started is due last. The transaction's own start is early
// enough for "to come", and those due before are left to be completed.
const lockRuns = `
SELECT max(due_at) FILTER (WHERE state <> 0 OR attempt > 0)
FROM (SELECT due_at, state, attempt FROM run WHERE partition = $1 AND job_id = $2 AND seq = 0 AND due_at > now() ORDER BY due_at FOR UPDATE) r`

// maxAhead is how far the instant of a change may lie ahead of the clock. What
// lies further ahead was written by a clock that was wrong.
const maxAhead = 10 * time.Second

// readClock finds the instant of the change. It is that of the database, but
// always after the job's last change, though the clock may go back a little;
// and not before the due time of a run that was started. Runs are claimed
// shortly before they are due, and what has been started is no longer part of
// the future that a change may take away.
func (c *change) readClock(ctx context.Context) error {
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

// nextDue is when the job is due next, after its change was written.
func (c *change) nextDue(ctx context.Context, in job.NextDueInput) (time.Time, error) {
	err := c.tx.QueryRow(ctx, `SELECT `+firstPending+` FROM (SELECT $1::smallint AS partition, $2::uuid AS id) j`, c.job.Partition, c.job.ID).Scan(&in.Pending)
	return job.NextDue(in), err
}

const readClock = `SELECT clock_timestamp()`

// now reads the database's clock.
func (a *API) now(ctx context.Context, namespace uuid.UUID) (now time.Time, err error) {
	err = a.db.Query(ctx, pool.In(namespace), func(rows pgx.Rows) error {
		now, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
		return err
	}, readClock)
	return now, err
}

// cursorOf tells which cursor a job has, without a lock.
func cursorOf(ctx context.Context, tx pgx.Tx, o job.ChangeParams) (cursor int64, err error) {
	err = tx.QueryRow(ctx, `SELECT j.cursor_id FROM job j `+whereJob, job.PartitionOf(o.ID), o.ID, o.Namespace).Scan(&cursor)
	if noRows(err) {
		return 0, ErrNotFound
	}
	return cursor, err
}

// changeJob locks a job and lets work change it.
func (a *API) changeJob(ctx context.Context, what string, o job.ChangeParams, work func(*change) error) error {
	return a.retrying(ctx, o.Namespace, what+" "+job.FormatJobID(o.ID), func(tx pgx.Tx) error {
		c, _, err := lockJob(ctx, tx, o)
		if err != nil {
			return err
		}
		return work(c)
	})
}

func deref(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
