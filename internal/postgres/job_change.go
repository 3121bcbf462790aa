package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// errMoved: the job got another cursor between the statement that read its cursor and the one that locked it.
var errMoved = fmt.Errorf("%w: the job is changed by others all the time", job.ErrConflict)

// maxTries bounds the transactions of one change. Each failed try means that another transaction succeeded.
const maxTries = 20

// retrying runs work in a transaction for a namespace, and repeats it after a conflict with another transaction.
func (a *API) retrying(ctx context.Context, namespace uuid.UUID, what string, work func(pgx.Tx) error) error {
	work = a.step.around(ctx, work)
	for try := 1; ; try++ {
		err := a.db.Tx(ctx, store.In(namespace, store.KeyLookups), what, work)
		code := store.Code(err)
		again := errors.Is(err, errMoved) || code == store.DeadlockDetected || code == "40001" // serialization failure
		if !again || try == maxTries || ctx.Err() != nil {
			return err
		}
	}
}

// changes are the changes of jobs of one namespace in one transaction. They take their locks in one order: cursors,
// jobs, and runs, each by partition and id. Plan locks cursors and writes only their jobs, and claim waits for no lock, so
// there is no deadlock.
type changes struct {
	tx      pgx.Tx
	log     auditLog
	entries []auditEntry // to write at the end
	cursors map[cursorAt]cursor
	adds    additions           // to quotas
	quotas  []access.QuotaError // of adds, those that the namespace has
}

// end writes the audit entries, and refuses what a quota does not allow.
func (s *changes) end(ctx context.Context, namespace uuid.UUID) error {
	if err := s.log.writeAll(ctx, s.tx, s.entries); err != nil || len(s.quotas) == 0 {
		return err
	}
	return s.adds.check(ctx, s.tx, namespace)
}

// change is a job that is being changed.
type change struct {
	*changes
	order  job.ChangeParams
	job    jobRow
	cursor cursor
	now    time.Time
}

// lockCursorsOf locks the cursors of jobs ($2, $3), and those with a key ($4, $5).
const lockCursorsOf = `
SELECT c.partition, c.key, c.id, c.next_due_at, c.after_job
FROM (SELECT j.partition, j.cursor_id AS id
      FROM (SELECT unnest($2::smallint[]) AS partition, unnest($3::uuid[]) AS id) k, LATERAL (
          SELECT partition, cursor_id FROM job
          WHERE partition = k.partition AND id = k.id AND namespace_id IS NOT DISTINCT FROM $1 LIMIT 1) j
      UNION
      SELECT t.partition, t.id
      FROM (SELECT unnest($4::smallint[]) AS partition, unnest($5::bytea[]) AS key) k, LATERAL (
          SELECT partition, id FROM cursor
          WHERE partition = k.partition AND namespace_id = $1 AND key = k.key LIMIT 1) t
      ORDER BY 1, 2) k, LATERAL (
    SELECT * FROM cursor WHERE partition = k.partition AND id = k.id LIMIT 1 FOR UPDATE) c`

const lockJobRows = jobColumns + `
FROM (SELECT unnest($2::smallint[]) AS partition, unnest($3::uuid[]) AS id) k, LATERAL (
    SELECT * FROM job
    WHERE partition = k.partition AND id = k.id AND namespace_id IS NOT DISTINCT FROM $1 LIMIT 1 FOR UPDATE) j`

// lock locks jobs with their cursors (and others that they may move to) and some of their runs (lockToCome or
// lockAllRuns), and then reads the clock once. An instant from before the wait for a lock would lie before changes,
// runs and completions that are visible after the wait, and would undo them. From then on, no run that is due later can
// be claimed or completed. The result has the order of the parameters, which are all of one namespace.
func (s *changes) lock(
	ctx context.Context, orders []job.ChangeParams, lockRuns string, to ...cursorAt,
) ([]*change, error) {
	namespace := orders[0].Namespace
	keys := make([]job.Key, len(orders))
	for i := range orders {
		keys[i] = job.Key{Partition: job.PartitionOf(orders[i].ID), Job: orders[i].ID}
	}
	slices.SortFunc(keys, store.CompareKeys)
	k := store.SplitKeys(keys)
	var others cursorColumns
	for _, at := range to {
		others.partition, others.key = append(others.partition, at.partition), append(others.key, at.key[:])
	}
	rows, err := s.tx.Query(ctx, lockCursorsOf, namespace, k.Partition, k.Job, others.partition, others.key)
	if err != nil {
		return nil, err
	}
	s.cursors = map[cursorAt]cursor{}
	if err := collectCursors(rows, s.cursors); err != nil {
		return nil, err
	}
	if rows, err = s.tx.Query(ctx, lockJobRows, namespace, k.Partition, k.Job); err != nil {
		return nil, err
	}
	jobs, err := pgx.CollectRows(rows, scanJob)
	if err != nil {
		return nil, err
	}
	out := make([]*change, len(orders))
	for i := range orders {
		if out[i], err = s.changeOf(orders[i], jobs); err != nil {
			return nil, err
		}
	}
	key := func(c *change) job.Key { return job.Key{Partition: c.job.Partition, Job: c.job.ID} }
	sorted := slices.SortedFunc(slices.Values(out), func(x, y *change) int { return store.CompareKeys(key(x), key(y)) })
	return out, s.readClock(ctx, sorted, lockRuns)
}

// changeOf returns the change of one of the locked jobs.
func (s *changes) changeOf(o job.ChangeParams, jobs []jobRow) (*change, error) {
	at := slices.IndexFunc(jobs, func(j jobRow) bool { return j.ID == o.ID })
	if at < 0 {
		return nil, job.ErrNotFound
	}
	c := &change{changes: s, order: o, job: jobs[at]}
	c.job.NextDue = c.job.nextDue()
	for _, cursor := range s.cursors {
		if cursor.id == c.job.cursor {
			c.cursor = cursor.of(o.ID)
		}
	}
	switch {
	case c.cursor.id == 0:
		return nil, errMoved
	case !o.Fits(c.job.Job):
		return nil, c.stale()
	}
	return c, nil
}

func (c *change) stale() error {
	return fmt.Errorf("%w: the job has version %d and was changed since it was read", job.ErrConflict, c.job.Version)
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

// readClock locks runs and determines the instant of each change. It is the time of the database, but after the job's
// last change even if the clock went back a little, and not before the due time of a run that was started. Runs are
// claimed shortly before they are due, and a change must not take away a run that was started.
func (s *changes) readClock(ctx context.Context, of []*change, lockRuns string) error {
	started := make([]*time.Time, len(of))
	var clock time.Time
	var batch pgx.Batch
	for i, c := range of {
		batch.Queue(lockRuns, c.job.Partition, c.job.ID).QueryRow(func(row pgx.Row) error { return row.Scan(&started[i]) })
	}
	batch.Queue(readClock).QueryRow(func(row pgx.Row) error { return row.Scan(&clock) })
	if err := s.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	for i, c := range of {
		c.now = clock.UTC()
		for _, t := range []time.Time{c.job.UpdatedAt.Add(store.Instant), store.OrZero(started[i])} {
			if t.Sub(clock) <= maxAhead {
				c.now = store.Later(c.now, t.UTC())
			}
		}
	}
	return nil
}

// nextDue adds a statement to a batch that reads when the job is due next, after its change was written.
func (c *change) nextDue(batch *pgx.Batch, in job.NextDueInput, into *time.Time) {
	const pending = `SELECT ` + firstPending + ` FROM (SELECT $1::smallint AS partition, $2::uuid AS id) j`
	batch.Queue(pending, c.job.Partition, c.job.ID).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&in.Pending)
		*into = job.NextDue(in)
		return err
	})
}

// readClock reads the clock for a change. It fails while the clock is in doubt: the change would plan runs by it.
const readClock = `SELECT belfry_clock()`

// now reads the database's clock.
func (a *API) now(ctx context.Context, namespace uuid.UUID) (now time.Time, err error) {
	err = a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		now, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
		return err
	}, `SELECT clock_timestamp()`)
	return now, err
}

// changeJob locks a job and lets work change it.
func (a *API) changeJob(ctx context.Context, what string, o job.ChangeParams, work func(*change) error) error {
	return a.changeJobs(ctx, what+" "+job.FormatJobID(o.ID), []job.ChangeParams{o}, work)
}

// changeJobs locks jobs of one namespace and lets work change one after the other, all or none.
func (a *API) changeJobs(ctx context.Context, what string, orders []job.ChangeParams, work func(*change) error) error {
	return a.retrying(ctx, orders[0].Namespace, what, func(tx pgx.Tx) error {
		s := changes{tx: tx, log: a.log}
		jobs, err := s.lock(ctx, orders, lockToCome)
		if err != nil {
			return err
		}
		for _, c := range jobs {
			if err := work(c); err != nil {
				return err
			}
		}
		return s.end(ctx, orders[0].Namespace)
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
