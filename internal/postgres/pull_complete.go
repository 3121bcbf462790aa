package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
	"github.com/belfry-dev/belfry/internal/store"
)

var (
	completePulled = finish.CompleteStatement + ` RETURNING job_id, due_at, seq, attempt, session_id,
    extract(epoch FROM ended_at - started_at)::float8, coalesce(trace, ''), started_at - run_at`
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

// CompletePulled writes the outcomes that workers report. Each names its session and its namespace. For each it returns
// whether it was accepted, in their order. A report that occurs twice in one call counts once.
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
	failed := e.decidePulled(ctx, others, taken)
	out = make([]job.Reported, len(done))
	var stale []job.Completion
	var at []int
	for i, c := range done {
		switch took := taken[reportOf(c)]; {
		case took != nil:
			out[i].Took = *took
		case failed[c.Namespace] != nil:
			out[i].Err = failed[c.Namespace]
		default:
			stale, at = append(stale, c), append(at, i)
		}
	}
	// Those of other namespaces are written already, even if one of them took all the time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), decideLimit)
	defer cancel()
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
	finish.SortCompletions(done)
	k, attempt := finish.SplitCompletions(done)
	var ends []job.End
	collect := func(rows pgx.Rows) error {
		var r report
		var session pgtype.UUID
		var seconds float64
		end := job.End{Ended: job.EndedSucceeded}
		key := &end.Key
		_, err := pgx.ForEachRow(
			rows,
			[]any{store.Raw(&key.Job), &key.DueAt, &key.Seq, &r.attempt, &session, &seconds, &end.Trace, &end.Late},
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
	store.InQueues(finish.QueuesOf(done), store.KeyLookups, store.HashJoin, store.OnePlan).Queue(&batch)
	batch.Queue(completePulled, k.Partition, k.Job, k.DueAt, k.Seq, attempt, finish.SessionsOf(done), finish.LateOf(done)).
		Query(collect)
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("complete %d runs of workers: %w", len(done), err)
	}
	e.ReportSucceeded(done[:len(ends)], ends)
	return nil
}

// Each namespace has its own transactions, a few at the same time and within a limit.
const (
	decidedAtOnce = 3
	decideLimit   = 5 * time.Second
)

// decidePulled writes the outcomes of each namespace by themselves: what takes long or fails in one does not keep those of
// others from being written. It returns the errors by namespace.
func (e *Engine) decidePulled(ctx context.Context, done []job.Completion, taken accepted) map[uuid.UUID]error {
	parts := finish.SplitNamespaces(done)
	results, errs := make([]finish.Written, len(parts)), make([]error, len(parts))
	var all errgroup.Group
	all.SetLimit(decidedAtOnce)
	for i, part := range parts {
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, decideLimit)
			defer cancel()
			results[i], errs[i] = e.Write(ctx, store.AsReporter(part[0].Namespace, finish.QueuesOf(part)...), part)
			return nil
		})
	}
	_ = all.Wait()
	failed := map[uuid.UUID]error{}
	for i, d := range results {
		for j := range d.Found {
			taken[reportOf(d.Found[j].Completion)] = &d.Found[j].Took
		}
		if errs[i] != nil {
			failed[parts[i][0].Namespace] = errs[i]
		}
	}
	return failed
}

// endWorkers ends the sessions of workers that have expired, under their locks, so that nothing more is leased to them.
const endWorkers = `
UPDATE session s SET expires_at = '-infinity' WHERE queue_id IS NOT NULL AND id = ANY ($1) AND ` + store.Expired

// endedWorkers lists sessions that have ended, the namespaces in turns.
const endedWorkers = `
SELECT id FROM (
    SELECT id, row_number() OVER (PARTITION BY namespace_id) AS turn FROM session s
    WHERE queue_id IS NOT NULL AND (expires_at = '-infinity' OR ` + store.Expired + `)) x
ORDER BY turn LIMIT $1`

// maxEnded is how many sessions are handled at once, and maxRescues how often one call of RescueWorkers does that. A
// namespace whose workers open and end sessions all the time must not delay the rescue of others, and neither must one
// with more runs than can be searched for those of its workers within rescueTime. It has slowRescueTime when the
// others are done.
const (
	maxEnded       = 200
	maxRescues     = 25
	rescueTime     = 5 * time.Second
	slowRescueTime = 30 * time.Second
)

// RescueWorkers ends the attempts of workers whose session has ended, as finish.Decide says, and then deletes the session.
// Any number of nodes may call it: if two find the same attempt, one is fenced. It returns how many attempts it found,
// and the runs that nodes have to retry because their job has another target now.
func (e *Engine) RescueWorkers(ctx context.Context, limit int) (retries []job.Run, found int, err error) {
	for range maxRescues {
		more, lost, ended, err := e.rescueSome(ctx, limit-found)
		retries, found = append(retries, more...), found+lost
		if err != nil || found >= limit || ended < maxEnded {
			return retries, found, err
		}
	}
	return retries, found, nil
}

// rescueSome does so for some sessions, and returns how many have ended, or maxEnded if there may be more to rescue.
func (e *Engine) rescueSome(ctx context.Context, limit int) (retries []job.Run, found, ended int, err error) {
	all, ended, err := e.endedWorkers(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	most := max(1, limit/max(1, len(all)))
	rescue := func(s *endedSessions, within time.Duration) error {
		more, lost, err := e.rescueSessions(ctx, s, most, within)
		if lost == most {
			ended = maxEnded
		}
		retries, found = append(retries, more...), found+lost
		return err
	}
	var slow []*endedSessions
	for _, s := range all {
		if rescue(s, rescueTime) != nil {
			slow = append(slow, s)
		}
	}
	for _, s := range slow {
		err = errors.Join(err, rescue(s, slowRescueTime))
	}
	return retries, found, ended, err
}

// endedSessions are sessions of a namespace that have ended, with their queues.
type endedSessions struct {
	ids    []uuid.UUID
	queues []int32
}

// rescueSessions does so for the sessions of one namespace, which it deletes if there is nothing more to rescue.
func (e *Engine) rescueSessions(
	ctx context.Context, s *endedSessions, limit int, within time.Duration,
) (retries []job.Run, found int, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var lost []job.Completion
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.KeyLookups))
	batch.Queue(rescueWorkers, s.queues, s.ids, limit).Query(func(rows pgx.Rows) error {
		c := job.Completion{
			Outcome: job.Outcome{Kind: job.Lost, Message: "the worker's session ended before it reported"},
		}
		_, err := pgx.ForEachRow(
			rows,
			[]any{&c.Key.Partition, store.Raw(&c.Key.Job), &c.Key.DueAt, &c.Key.Seq, &c.Attempt, store.Raw(&c.Session)},
			func() error {
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
	if _, err = e.db.Exec(ctx, `DELETE FROM session WHERE id = ANY ($1) AND expires_at = '-infinity'`, s.ids); err != nil {
		return retries, len(lost), fmt.Errorf("forget sessions: %w", err)
	}
	return retries, len(lost), nil
}

// endedWorkers returns sessions of workers that have ended, by namespace, and how many they are.
func (e *Engine) endedWorkers(ctx context.Context) (all []*endedSessions, n int, err error) {
	rows, err := e.db.Query(ctx, endedWorkers, maxEnded)
	if err != nil {
		return nil, 0, fmt.Errorf("find workers that are gone: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil || len(ids) == 0 {
		return nil, 0, err
	}
	locks := map[int64]bool{}
	for _, id := range ids {
		locks[store.SessionLock(id)] = true
	}
	of := map[uuid.UUID]*endedSessions{}
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(lockEach, lockList(locks))
	batch.Queue(endWorkers, ids)
	// One may have been renewed since it was found. The session of an export has no namespace.
	const ended = `
SELECT id, queue_id, coalesce(namespace_id, '00000000-0000-0000-0000-000000000000')
FROM session WHERE id = ANY ($1) AND expires_at = '-infinity'`
	batch.Queue(ended, ids).Query(func(rows pgx.Rows) error {
		var id, namespace uuid.UUID
		var queue int32
		_, err := pgx.ForEachRow(rows, []any{store.Raw(&id), &queue, store.Raw(&namespace)}, func() error {
			if of[namespace] == nil {
				of[namespace] = &endedSessions{}
			}
			s := of[namespace]
			s.ids, s.queues = append(s.ids, id), append(s.queues, queue)
			n++
			return nil
		})
		return err
	})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("end the sessions of workers that are gone: %w", err)
	}
	return slices.Collect(maps.Values(of)), n, nil
}
