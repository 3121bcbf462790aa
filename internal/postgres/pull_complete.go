package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

var (
	completePulled = completeSucceeded + ` RETURNING job_id, due_at, seq, attempt, session_id,
    extract(epoch FROM ended_at - greatest(started_at, run_at))::float8, coalesce(trace, ''),
    greatest(started_at - run_at, '0')`
	rescueWorkers = statement("rescue_workers")
)

// report identifies the report of a worker about an attempt.
type report struct {
	run     job.RunKey
	attempt int16
	session uuid.UUID
}

func reportOf(c job.Completion) report { return report{c.Key.RunKey(), c.Attempt, c.Session} }

// accepted is how long the attempts of reports took. nil: the report is not accepted so far.
type accepted map[report]*time.Duration

// CompletePulled writes the outcomes that workers report. Each names its session and its namespace. For each it returns whether it was
// accepted, in their order. A report that occurs twice in one call counts once.
func (e *Engine) CompletePulled(ctx context.Context, done []job.Completion) (out []job.Reported, err error) {
	taken := make(accepted, len(done))
	var succeeded, others []job.Completion
	for _, c := range done {
		if _, twice := taken[reportOf(c)]; twice {
			continue
		}
		taken[reportOf(c)] = nil
		if c.Outcome.Kind == job.Succeeded && c.Outcome.Result == "" {
			succeeded = append(succeeded, c)
		} else {
			others = append(others, c)
		}
	}
	if err := e.completePulled(ctx, succeeded, taken); err != nil {
		return nil, err
	}
	// What is left over is not always stale: the statement does not see rows that were updated meanwhile, for example
	// by the progress of a heartbeat.
	for _, c := range succeeded {
		if taken[reportOf(c)] == nil {
			others = append(others, c)
		}
	}
	if err := e.decidePulled(ctx, others, taken); err != nil {
		return nil, err
	}
	out = make([]job.Reported, len(done))
	var stale []job.Completion
	var at []int
	for i, c := range done {
		if took := taken[reportOf(c)]; took != nil {
			out[i].Took = *took
		} else {
			stale, at = append(stale, c), append(at, i)
		}
	}
	reasons, err := e.goneReasons(ctx, stale)
	for i, r := range reasons {
		out[at[i]].Rejected = r
	}
	return out, err
}

func (e *Engine) completePulled(ctx context.Context, done []job.Completion, taken accepted) error {
	if len(done) == 0 {
		return nil
	}
	sortCompletions(done)
	k, attempt := splitCompletions(done)
	var ends []job.End
	collect := func(rows pgx.Rows) error {
		var r report
		var session pgtype.UUID
		var seconds float64
		end := job.End{Ended: job.EndedSucceeded}
		key := &end.Key
		_, err := pgx.ForEachRow(
			rows,
			[]any{raw(&key.Job), &key.DueAt, &key.Seq, &r.attempt, &session, &seconds, &end.Trace, &end.Late},
			func() error {
				r.run, r.session = key.RunKey(), session.Bytes
				took := time.Duration(seconds * float64(time.Second))
				taken[r] = &took
				key.Partition, end.Attempt = job.PartitionOf(key.Job), r.attempt
				ends = append(ends, end)
				return nil
			},
		)
		return err
	}
	var batch pgx.Batch // one round trip, one transaction
	pool.InQueues(queuesOf(done), pool.KeyLookups, pool.OnePlan).Queue(&batch)
	batch.Queue(completePulled, k.partition, k.job, k.dueAt, k.seq, attempt, sessionsOf(done)).Query(collect)
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("complete %d runs of workers: %w", len(done), err)
	}
	e.reportSucceeded(done[:len(ends)], ends)
	return nil
}

func (e *Engine) decidePulled(ctx context.Context, done []job.Completion, taken accepted) error {
	for _, part := range splitNamespaces(done) {
		d, err := e.decide(ctx, asReporter(part[0].Namespace), part)
		for i := range d.found {
			taken[reportOf(d.found[i].Completion)] = &d.found[i].took
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endWorkers ends the sessions of workers that have expired, under their locks, so that nothing more is leased to them.
const endWorkers = `
UPDATE session s SET expires_at = '-infinity' WHERE queue_id IS NOT NULL AND id = ANY ($1) AND ` + expired

const endedWorkers = `
SELECT id, queue_id FROM session s
WHERE queue_id IS NOT NULL AND (expires_at = '-infinity' OR ` + expired + `) LIMIT $1`

// maxEnded is how many sessions one call of RescueWorkers handles.
const maxEnded = 200

// RescueWorkers ends the attempts of workers whose session has ended, as job.Decide says, and then deletes the session.
// Any number of nodes may call it: if two find the same attempt, one is fenced. It returns how many attempts it found,
// and the runs that nodes have to retry because their job has another target now.
func (e *Engine) RescueWorkers(ctx context.Context, limit int) (retries []job.Run, found int, err error) {
	ids, queues, err := e.endedWorkers(ctx)
	if err != nil || len(ids) == 0 {
		return nil, 0, err
	}
	var lost []job.Completion
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(pool.Apply(pool.KeyLookups))
	batch.Queue(rescueWorkers, queues, ids, limit).Query(func(rows pgx.Rows) error {
		c := job.Completion{
			Outcome: job.Outcome{Kind: job.Lost, Message: "the worker's session ended before it reported"},
		}
		_, err := pgx.ForEachRow(
			rows,
			[]any{&c.Key.Partition, raw(&c.Key.Job), &c.Key.DueAt, &c.Key.Seq, &c.Attempt, raw(&c.Session)},
			func() error {
				c.KeepKey()
				lost = append(lost, c)
				return nil
			},
		)
		return err
	})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("find the runs of workers that are gone: %w", err)
	}
	retries, _, err = e.CompleteDecided(ctx, lost)
	if err != nil || len(lost) == limit {
		return retries, len(lost), err
	}
	if _, err = e.db.Exec(ctx, `DELETE FROM session WHERE id = ANY ($1) AND expires_at = '-infinity'`, ids); err != nil {
		return retries, len(lost), fmt.Errorf("forget sessions: %w", err)
	}
	return retries, len(lost), nil
}

func (e *Engine) endedWorkers(ctx context.Context) (ids []uuid.UUID, queues []int32, err error) {
	rows, err := e.db.Query(ctx, endedWorkers, maxEnded)
	if err != nil {
		return nil, nil, fmt.Errorf("find workers that are gone: %w", err)
	}
	locks := map[int64]bool{}
	var id uuid.UUID
	var queue int32
	_, err = pgx.ForEachRow(rows, []any{raw(&id), &queue}, func() error {
		ids, queues = append(ids, id), append(queues, queue)
		locks[lockOf(id)] = true
		return nil
	})
	if err != nil || len(ids) == 0 {
		return nil, nil, err
	}
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(lockEach, lockList(locks))
	batch.Queue(endWorkers, ids)
	found := ids
	ids, queues = nil, nil // one may have been renewed since it was found
	batch.Queue(`SELECT id, queue_id FROM session WHERE id = ANY ($1) AND expires_at = '-infinity'`, found).
		Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{raw(&id), &queue}, func() error {
				ids, queues = append(ids, id), append(queues, queue)
				return nil
			})
			return err
		})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, nil, fmt.Errorf("end the sessions of workers that are gone: %w", err)
	}
	return ids, queues, nil
}
