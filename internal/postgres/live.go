package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

const (
	liveTime = "100ms" // timeout of reading all live runs
	liveSome = 30_000  // live runs that are read if that is not enough
)

// liveCounts reads the live runs of the whole cluster. There is no index by state or run time, see
// docs/decisions/0044. A run whose process has died does not run: it is due until a node rescues it.
const liveCounts = `
SELECT r.*, q.namespace_id FROM (
SELECT queue_id, count(*) FILTER (WHERE state = 1 /* running */ AND lost IS NOT TRUE),
       count(*) FILTER (WHERE state = 2 /* waiting */),
       count(*) FILTER (WHERE state = 0 /* pending */ AND run_at > now() AND attempt > 0),
       count(*) FILTER (WHERE state = 0 /* pending */ AND run_at <= now()),
       count(*) FILTER (WHERE (state = 0 /* pending */ OR lost) AND run_at <= now() - $1::interval),
       count(*) FILTER (WHERE state = 0 /* pending */ AND run_at <= now() AND handler IS NOT NULL),
       min(run_at) FILTER (WHERE (state = 0 /* pending */ OR lost) AND run_at <= now())
FROM (SELECT queue_id, state, run_at, attempt, handler, state = 1 /* running */ AND session_id NOT IN (
          SELECT s.id FROM session s WHERE s.expires_at > '-infinity' AND NOT (` + expired + `)) AS lost
      FROM run`

const (
	liveOfAll  = liveCounts + `) r GROUP BY queue_id` + liveNames
	liveOfSome = liveCounts + ` LIMIT $2) r GROUP BY queue_id` + liveNames
	liveNames  = `) r JOIN queue q ON q.id = r.queue_id`
)

// unplannedCounts counts the occurrences that are late and not planned, one for each job: nodes plan ahead, so there
// are none unless no node served a partition for longer than that.
const unplannedCounts = `
SELECT x.namespace_id, count(*), min(x.next_due_at) FROM (
    SELECT c.namespace_id, c.next_due_at FROM partition p, LATERAL (
        SELECT * FROM cursor WHERE partition = p.id AND plan_at <= now() - $1::interval
        ORDER BY plan_at LIMIT $2) c, LATERAL (
        SELECT FROM job j
        WHERE j.partition = c.partition AND j.cursor_id = c.id AND j.state = 1 /* active */
          AND (c.after_job IS NULL OR j.id > c.after_job) AND j.plan_from <= c.next_due_at
          AND (j.end_at IS NULL OR j.end_at > c.next_due_at)
        LIMIT $2) j
    WHERE c.broken_at IS NULL LIMIT $2) x
GROUP BY x.namespace_id`

// brokenCounts counts schedules that cannot be planned, which are few.
const brokenCounts = `
SELECT b.namespace_id, count(*) FROM (
    SELECT namespace_id FROM cursor WHERE broken_at IS NOT NULL ORDER BY broken_at LIMIT $1) b
GROUP BY b.namespace_id`

// LiveRuns counts live runs by queue, and broken schedules. If there are too many to read in time, it reads some of them and says so.
func (a *Admin) LiveRuns(ctx context.Context) (job.Live, error) {
	live, err := a.liveRuns(ctx, liveOfAll, job.LateNow)
	if gaveUp(ctx, err) {
		live, err = a.someLiveRuns(ctx, liveSome)
	}
	if err != nil {
		return live, fmt.Errorf("count live runs: %w", err)
	}
	return live, nil
}

func (a *Admin) someLiveRuns(ctx context.Context, n int) (job.Live, error) {
	live, err := a.liveRuns(ctx, liveOfSome, job.LateNow, n)
	live.Complete = false
	return live, err
}

func (a *Admin) liveRuns(ctx context.Context, sql string, args ...any) (job.Live, error) {
	live := job.Live{
		Queues: map[int32]job.LiveCount{}, Namespaces: map[uuid.UUID]job.LiveCount{}, Complete: true, Broken: map[uuid.UUID]int64{},
		Unplanned: map[uuid.UUID]job.Unplanned{},
	}
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(pool.Apply(pool.Timeout(liveTime), pool.NoBitmaps) + `, set_config('jit', 'off', true),
		set_config('max_parallel_workers_per_gather', '0', true)`)
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		var c job.LiveCount
		var oldest *time.Time
		var namespace uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{
			&c.Queue, &c.Running, &c.Accepted, &c.Retrying, &c.Due, &c.Late, &c.DuePulled, &oldest, &namespace,
		}, func() error {
			c.OldestDue = deref(oldest).UTC()
			if oldest == nil {
				c.OldestDue = time.Time{}
			}
			live.Queues[c.Queue] = c
			sum := live.Namespaces[namespace]
			sum.Add(c)
			live.Namespaces[namespace] = sum
			return nil
		})
		return err
	})
	if sql == liveOfAll {
		batch.Queue(unplannedCounts, job.LateNow, job.MaxUnplanned+1).Query(func(rows pgx.Rows) error {
			return readUnplanned(rows, &live)
		})
	}
	batch.Queue(brokenCounts, job.MaxBroken+1).Query(func(rows pgx.Rows) error {
		var namespace uuid.UUID
		var n, all int64
		_, err := pgx.ForEachRow(rows, []any{&namespace, &n}, func() error {
			live.Broken[namespace], all = n, all+n
			return nil
		})
		live.BrokenMore = all > job.MaxBroken
		return err
	})
	return live, a.db.SendBatch(ctx, &batch).Close()
}

func readUnplanned(rows pgx.Rows, live *job.Live) error {
	var namespace uuid.UUID
	var u job.Unplanned
	all := int64(0)
	_, err := pgx.ForEachRow(rows, []any{&namespace, &u.Runs, &u.Oldest}, func() error {
		u.Oldest = u.Oldest.UTC()
		live.Unplanned[namespace] = u
		all += u.Runs
		return nil
	})
	live.Complete = all <= job.MaxUnplanned
	return err
}
