package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// Depth is what some partitions have: live runs, dead letters and slots of workers, by queue.
type Depth struct {
	Queues      []QueueDepth
	Scheduled   []QueueCount // runs that may start later; nil: counting them took too long
	DeadLetters []QueueCount
	// WorkerSlots are the slots that workers offer. Each session of a worker counts in one partition, so that the sum
	// over all nodes is right.
	WorkerSlots []QueueCount
	Names       []QueueName // of the queues that were asked for
	Sessions    int64       // nodes that are alive in the whole cluster
	DaysAhead   int64       // days of history that exist after today
	BackupAge   *float64    // seconds since the last backup; nil: none was reported
	HeldFor     float64     // seconds since a restore was noticed that still holds runs; 0: none does
	Bytes       int64       // of the database on disk, without its WAL
}

// QueueName is the names of a queue. They are empty if it does not exist any more.
type QueueName struct {
	Namespace, Queue string
	ID               int32
}

// QueueCount is a number of something that a queue has.
type QueueCount struct {
	QueueName
	Count int64
}

// QueueDepth is how many live runs of a queue there are, by state.
type QueueDepth struct {
	QueueName
	Due, Running, Waiting int64
	Late                  int64   // of those that are due, for more than job.LateAfter
	Pulled                int64   // of those that are running, by workers
	OldestDue             float64 // seconds since the first run was due that could start and has not
}

const depthTime = 10 * time.Second

// queueDepth counts live runs that are due or in progress. The oldest due run is one that could start: its queue is not
// paused, no restore of the database holds it, and if its job does not allow runs at the same time, none is live. The
// subquery in the filter is hashed, whatever the statistics say.
const queueDepth = `
WITH r AS MATERIALIZED (
    SELECT q.id AS queue_id, q.paused, r.* FROM ` + activeRuns + ` WHERE r.partition = ANY (@partitions))
SELECT coalesce(n.name, q.namespace_id::text), q.name, q.id,
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.since IS NOT NULL),
       count(*) FILTER (WHERE r.state = 1 /* running */),
       count(*) FILTER (WHERE r.state = 2 /* waiting */),
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.since <= now() - @late::interval),
       count(*) FILTER (WHERE r.state = 1 /* running */ AND r.handler IS NOT NULL),
       coalesce(max(extract(epoch FROM now() - r.run_at)) FILTER (
           WHERE r.state = 0 /* pending */ AND r.run_at <= now() AND NOT r.paused
             AND r.due_at >= (SELECT held_until FROM cluster WHERE only_row)
             AND NOT (r.admit & 3 <> 0 /* freely */ AND r.job_id IN (
                 SELECT job_id FROM r WHERE state <> 0 /* live */))), 0)::float8
FROM r JOIN queue q ON q.id = r.queue_id LEFT JOIN namespace n ON n.id = q.namespace_id
GROUP BY n.name, q.id
ORDER BY count(*) DESC`

// scheduledRuns are all others.
const scheduledRuns = queueCounts + `count(*)
FROM (SELECT queue_id FROM run
      WHERE partition = ANY (@partitions) AND state = 0 /* pending */ AND run_at > now() AND deferred_from IS NULL) d` +
	ofQueues

const queueDeadLetters = queueCounts + `count(*)
FROM (SELECT queue_id FROM dead_letter WHERE partition = ANY (@partitions) LIMIT @runs) d` + ofQueues

const queueWorkerSlots = queueCounts + `sum(d.slots)
FROM (SELECT queue_id, coalesce(slots, 0) AS slots FROM session
      WHERE queue_id > 0 /* 0: belfry archive run */ AND expires_at > now() AND uuid_hash(id) & 255 = ANY (@partitions)
      LIMIT @runs) d` + ofQueues

const (
	queueCounts = `SELECT coalesce(n.name, q.namespace_id::text, ''), coalesce(q.name, ''), coalesce(q.id, 0), `
	ofQueues    = `
LEFT JOIN queue q ON q.id = d.queue_id
LEFT JOIN namespace n ON n.id = q.namespace_id
GROUP BY 1, 2, 3
ORDER BY 4 DESC, 3`
)

const queueNames = `
SELECT coalesce(n.name, q.namespace_id::text, ''), coalesce(q.name, ''), k.id
FROM unnest($1::integer[]) AS k (id)
LEFT JOIN queue q ON q.id = k.id
LEFT JOIN namespace n ON n.id = q.namespace_id`

const clusterDepth = `
SELECT (SELECT count(*) FROM session WHERE expires_at > now() AND queue_id IS NULL),
       (SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'run_history'::regclass
          AND c.relname > 'run_history_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')),
       extract(epoch FROM now() - backed_up_at)::float8,
       CASE WHEN held_until > '-infinity' THEN extract(epoch FROM now() - held_until)::float8 ELSE 0 END,
       pg_database_size(current_database())
FROM cluster WHERE only_row`

// Depth counts live runs, dead letters and slots of workers of partitions, and reads the names of queues. It may read
// many rows. Call it from time to time, not for each scrape. Runs that are planned for later are counted last: if that
// takes too long, the result lacks only them.
func (e *Engine) Depth(ctx context.Context, partitions []int16, named []int32) (d Depth, err error) {
	ctx, cancel := context.WithTimeout(ctx, depthTime)
	defer cancel()
	args := pgx.NamedArgs{"partitions": partitions, "late": job.LateAfter}
	count := func(batch *pgx.Batch, sql string, out *[]QueueCount) {
		batch.Queue(sql, args).Query(func(rows pgx.Rows) (err error) {
			*out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[QueueCount])
			return err
		})
	}
	err = withLimit(ctx, func(limit int) error {
		args["runs"] = limit
		batch := liveBatch()
		batch.Queue(queueDepth, args).Query(func(rows pgx.Rows) error {
			d.Queues, err = pgx.CollectRows(rows, pgx.RowToStructByPos[QueueDepth])
			return err
		})
		count(batch, queueDeadLetters, &d.DeadLetters)
		count(batch, queueWorkerSlots, &d.WorkerSlots)
		batch.Queue(queueNames, named).Query(func(rows pgx.Rows) error {
			d.Names, err = pgx.CollectRows(rows, pgx.RowToStructByPos[QueueName])
			return err
		})
		batch.Queue(clusterDepth).QueryRow(func(row pgx.Row) error {
			return row.Scan(&d.Sessions, &d.DaysAhead, &d.BackupAge, &d.HeldFor, &d.Bytes)
		})
		return e.db.SendBatch(ctx, batch).Close()
	})
	if err == nil {
		var batch pgx.Batch
		batch.Queue(store.Apply(store.Timeout(liveTime)))
		count(&batch, scheduledRuns, &d.Scheduled)
		if err = e.db.SendBatch(ctx, &batch).Close(); store.GaveUp(ctx, err) {
			err = nil
		}
	}
	if err != nil {
		return Depth{}, fmt.Errorf("count live runs: %w", err)
	}
	return d, nil
}
