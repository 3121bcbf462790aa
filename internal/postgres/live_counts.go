package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

const maxWorkersRead = 10_000

// countLiveRuns counts by queue and handler: runs that are running or accepted, and those that are due.
const countLiveRuns = `
SELECT q.id, r.handler, count(*) FILTER (WHERE r.state <> 0 /* live */),
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.since IS NOT NULL),
       min(r.since) FILTER (WHERE r.state = 0 /* pending */), count(*)
FROM ` + activeRuns + `
GROUP BY q.id, r.handler`

// countPlanned counts the runs of the next minute.
const countPlanned = `
SELECT q.id, count(*) FROM queue q, LATERAL (
    SELECT FROM run
    WHERE queue_id::bigint = q.id AND run_at > now() AND run_at <= now() + interval '1 min' AND state = 0 /* pending */
      AND deferred_from IS NULL
    LIMIT @runs + 1) r
GROUP BY q.id`

const countWaiters = `
SELECT queue_id, sum(waiting) FROM queue_waiter WHERE reported_at > now() - interval '2 s' GROUP BY queue_id`

const liveWorkers = `
SELECT queue_id, handlers FROM session WHERE queue_id IS NOT NULL AND expires_at > now() LIMIT $1`

// CountLive counts the live runs and the workers of all queues, up to a limit of each queue. It may read many runs, so it
// is for one reader at a time: callers share the result.
func (a *Admin) CountLive(ctx context.Context) (out job.LiveCounts, err error) {
	err = withLimit(ctx, func(limit int) (err error) {
		c := liveCounter{limit: int64(limit)}
		out, err = c.count(ctx, a)
		return err
	})
	if err != nil {
		return out, fmt.Errorf("count live runs: %w", err)
	}
	return out, nil
}

// liveCounter collects the counts.
type liveCounter struct {
	limit int64
	out   job.LiveCounts
	read  map[int32]int64
	due   map[int32][]string // handlers of due runs, by queue
	asked map[int32][]string // handlers that workers claim for, by queue
	mute  map[int32]bool     // queues with a worker that has not claimed yet
}

func (c *liveCounter) queue(id int32) *job.QueueCounts {
	q := c.out[id]
	if q == nil {
		q = &job.QueueCounts{}
		c.out[id] = q
	}
	return q
}

func (c *liveCounter) count(ctx context.Context, a *Admin) (job.LiveCounts, error) {
	c.out = job.LiveCounts{}
	c.due, c.asked, c.mute = map[int32][]string{}, map[int32][]string{}, map[int32]bool{}
	c.read = map[int32]int64{}
	batch := liveBatch()
	args := pgx.NamedArgs{"runs": c.limit}
	batch.Queue(countLiveRuns, args).Query(c.runs)
	batch.Queue(countPlanned, args).Query(c.planned)
	batch.Queue(countWaiters).Query(c.waiters)
	batch.Queue(liveWorkers, maxWorkersRead).Query(c.workers)
	if err := a.db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	for id, handlers := range c.due {
		if c.mute[id] {
			continue
		}
		q := c.queue(id)
		for _, h := range handlers {
			if !slices.Contains(c.asked[id], h) {
				q.Orphans = append(q.Orphans, h)
			}
		}
		slices.Sort(q.Orphans)
	}
	return c.out, nil
}

func (c *liveCounter) runs(rows pgx.Rows) error {
	var queue int32
	var handler *string
	var running, due, n int64
	var first *time.Time
	_, err := pgx.ForEachRow(rows, []any{&queue, &handler, &running, &due, &first, &n}, func() error {
		q := c.queue(queue)
		q.Running, q.Due, q.OldestDueAt = q.Running+running, q.Due+due, oldestOf(q.OldestDueAt, first)
		c.read[queue] += n
		q.More = c.read[queue] >= c.limit
		if handler != nil && due > 0 {
			c.due[queue] = append(c.due[queue], *handler)
		}
		return nil
	})
	return err
}

func (c *liveCounter) planned(rows pgx.Rows) error {
	var queue int32
	var n int64
	_, err := pgx.ForEachRow(rows, []any{&queue, &n}, func() error {
		q := c.queue(queue)
		q.Planned, q.PlannedMore = min(n, c.limit), n > c.limit
		return nil
	})
	return err
}

func (c *liveCounter) waiters(rows pgx.Rows) error {
	var queue int32
	var n int64
	_, err := pgx.ForEachRow(rows, []any{&queue, &n}, func() error {
		c.queue(queue).Waiting = n
		return nil
	})
	return err
}

func (c *liveCounter) workers(rows pgx.Rows) error {
	var queue int32
	var handlers []string
	_, err := pgx.ForEachRow(rows, []any{&queue, &handlers}, func() error {
		c.queue(queue).Workers++
		if handlers == nil {
			c.mute[queue] = true
		}
		c.asked[queue] = append(c.asked[queue], handlers...)
		return nil
	})
	return err
}
