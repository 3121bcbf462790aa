package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

const (
	// liveLimit is how many live runs one count reads. No index has the runs of a queue, because every run would pay
	// for it.
	liveLimit = 100_000
	// liveLess is read if the table is so bloated that liveLimit takes too long.
	liveLess = 2000

	maxWorkersRead = 10_000
)

// liveSettings bound the time of each statement. JIT would cost more than the statement.
var liveSettings = []pool.Settings{pool.Timeout("300ms"), "set_config('jit', 'off', true)"}

// countLiveRuns counts by queue, handler and how live a run is: 1 running or accepted, 2 due, 3 due within a minute, 4 later.
const countLiveRuns = `
SELECT queue_id, handler, live, count(*), min(run_at)
FROM (
    SELECT queue_id, handler, run_at, CASE
        WHEN state <> 0 /* live */ THEN 1 WHEN run_at <= now() THEN 2
        WHEN run_at <= now() + interval '1 min' THEN 3 ELSE 4 END AS live
    FROM run LIMIT $1) r
GROUP BY queue_id, handler, live`

const countWaiters = `
SELECT queue_id, sum(waiting) FROM queue_waiter WHERE reported_at > now() - interval '2 s' GROUP BY queue_id`

const liveWorkers = `
SELECT queue_id, handlers FROM session WHERE queue_id IS NOT NULL AND expires_at > now() LIMIT $1`

// CountLive counts the live runs and the workers of all queues. It reads up to liveLimit runs, so it is for one reader
// at a time: callers share the result.
func (a *Admin) CountLive(ctx context.Context) (out job.LiveCounts, err error) {
	for _, limit := range []int{liveLimit, liveLess} {
		c := liveCounter{limit: limit}
		if out, err = c.count(ctx, a); !gaveUp(ctx, err) {
			break
		}
	}
	if err != nil {
		return out, fmt.Errorf("count live runs: %w", err)
	}
	return out, nil
}

// liveCounter collects the counts.
type liveCounter struct {
	limit int
	out   job.LiveCounts
	read  int64
	due   map[int32][]string // handlers of due runs, by queue
	asked map[int32][]string // handlers that workers claim for, by queue
	mute  map[int32]bool     // queues with a worker that has not claimed yet
}

func (c *liveCounter) queue(id int32) *job.QueueCounts {
	q := c.out.Queues[id]
	if q == nil {
		q = &job.QueueCounts{}
		c.out.Queues[id] = q
	}
	return q
}

func (c *liveCounter) count(ctx context.Context, a *Admin) (job.LiveCounts, error) {
	c.out.Queues = map[int32]*job.QueueCounts{}
	c.due, c.asked, c.mute = map[int32][]string{}, map[int32][]string{}, map[int32]bool{}
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(pool.Apply(liveSettings...))
	batch.Queue(countLiveRuns, c.limit).Query(c.runs)
	batch.Queue(countWaiters).Query(c.waiters)
	batch.Queue(liveWorkers, maxWorkersRead).Query(c.workers)
	if err := a.db.SendBatch(ctx, &batch).Close(); err != nil {
		return job.LiveCounts{}, err
	}
	c.out.More = c.read >= int64(c.limit)
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
	var live int
	var n int64
	var first time.Time
	_, err := pgx.ForEachRow(rows, []any{&queue, &handler, &live, &n, &first}, func() error {
		q := c.queue(queue)
		c.read += n
		switch live {
		case 1:
			q.Running += n
		case 2:
			q.Due += n
			if q.OldestDueAt.IsZero() || first.Before(q.OldestDueAt) {
				q.OldestDueAt = first.UTC()
			}
			if handler != nil {
				c.due[queue] = append(c.due[queue], *handler)
			}
		case 3:
			q.Planned += n
		}
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
