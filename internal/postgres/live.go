package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// How many runs of each queue are counted, and how many if that takes longer than liveTime.
const (
	liveLimit = 100_000
	liveLess  = 1_000
	liveTime  = "2s"
)

// withLimit reads live runs up to a limit of each queue, and up to a lower one if there is no time for that.
func withLimit(ctx context.Context, read func(limit int) error) (err error) {
	for _, limit := range []int{liveLimit, liveLess} {
		if err = read(limit); !store.GaveUp(ctx, err) {
			break
		}
	}
	return err
}

// liveBatch begins a batch with the settings of these reads: one round trip, one transaction.
func liveBatch() *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(store.Apply(store.KeyLookups, store.Timeout(liveTime)))
	return batch
}

// activeRuns are the runs r of each queue q that are due or in progress, and those that wait for another attempt: the
// oldest @runs of each. Runs that are planned for later are not read. Nodes claim less than a second ahead. In r, since
// is when a run could have started that has not. A run whose process has died does not run: it is lost, and late until
// a node rescues it.
const activeRuns = `queue q, LATERAL (
    SELECT x.*, CASE WHEN x.state = 0 /* pending */
                         THEN coalesce(x.deferred_from, CASE WHEN x.run_at <= now() THEN x.run_at END)
                     WHEN x.lost THEN x.run_at END AS since
    FROM (
        SELECT y.*, y.state = 1 /* running */ AND y.session_id NOT IN (
            SELECT s.id FROM session s WHERE s.expires_at > '-infinity' AND NOT (` + store.Expired + `)) AS lost
        FROM (
            (SELECT ` + activeColumns + ` FROM run
             WHERE queue_id::bigint = q.id AND run_at <= now() + interval '1 s' ORDER BY run_at LIMIT @runs)
            UNION ALL
            (SELECT ` + activeColumns + ` FROM run
             WHERE queue_id = q.id AND run_at > now() + interval '1 s' AND state = 0 /* pending */
               AND ` + triedBefore + `
             ORDER BY run_at LIMIT @runs)) y) x) r`

const (
	activeColumns = `partition, job_id, due_at, run_at, state, attempt, admit, handler, concurrency_key, session_id,
                    deferred_from, deferred_reason`
	// triedBefore is the condition of the index run_retry.
	triedBefore = `(attempts IS NOT NULL OR deferred_reason IS NOT NULL OR origin = 4)`
)

const liveCounts = `
SELECT q.id, q.namespace_id,
       count(*) FILTER (WHERE r.state = 1 /* running */ AND r.lost IS NOT TRUE),
       count(*) FILTER (WHERE r.state = 2 /* waiting */),
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.since IS NULL AND r.attempt > 0),
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.since IS NOT NULL),
       count(*) FILTER (WHERE r.since <= now() - @late::interval),
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.since IS NOT NULL AND r.handler IS NOT NULL),
       min(r.since),
       greatest(count(*) FILTER (WHERE r.run_at <= now() + interval '1 s'),
                count(*) FILTER (WHERE r.run_at > now() + interval '1 s')) >= @runs,
       count(*) FILTER (WHERE r.state = 0 /* pending */ AND r.deferred_from IS NOT NULL),
       min(r.deferred_from) FILTER (WHERE r.state = 0 /* pending */),
       coalesce(max(r.deferred_reason) FILTER (WHERE r.state = 0 /* pending */ AND r.deferred_from IS NOT NULL), '')
FROM ` + activeRuns + `
GROUP BY q.id`

// brokenCounts counts schedules that cannot be planned, which are few.
const brokenCounts = `
SELECT b.namespace_id, count(*) FROM (
    SELECT namespace_id FROM cursor WHERE broken_at IS NOT NULL ORDER BY broken_at LIMIT @broken) b
GROUP BY b.namespace_id`

// LiveRuns counts the live runs of all queues, without those that are planned for later, and broken schedules.
func (a *Admin) LiveRuns(ctx context.Context) (live job.Live, err error) {
	err = withLimit(ctx, func(limit int) error {
		live = job.Live{
			Queues: map[int32]job.LiveCount{}, Namespaces: map[uuid.UUID]job.LiveCount{}, Broken: map[uuid.UUID]int64{},
		}
		batch := liveBatch()
		args := pgx.NamedArgs{"late": job.LateNow, "runs": limit, "broken": job.MaxBroken + 1}
		batch.Queue(liveCounts, args).Query(func(rows pgx.Rows) error { return readLive(rows, &live) })
		batch.Queue(brokenCounts, args).Query(func(rows pgx.Rows) error { return readBroken(rows, &live) })
		return a.db.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return live, fmt.Errorf("count live runs: %w", err)
	}
	return live, nil
}

// readLive adds up the runs of queues.
func readLive(rows pgx.Rows, live *job.Live) error {
	var c job.LiveCount
	var oldest, deferred *time.Time
	var namespace uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{
		&c.Queue, &namespace, &c.Running, &c.Accepted, &c.Retrying, &c.Due, &c.Late, &c.DuePulled, &oldest, &c.More,
		&c.Deferred, &deferred, &c.DeferredReason,
	}, func() error {
		c.OldestDue, c.DeferredFrom = store.OrZero(oldest).UTC(), store.OrZero(deferred).UTC()
		live.Queues[c.Queue] = c
		sum := live.Namespaces[namespace]
		sum.Add(c)
		live.Namespaces[namespace] = sum
		return nil
	})
	return err
}

func readBroken(rows pgx.Rows, live *job.Live) error {
	var namespace uuid.UUID
	var n, all int64
	_, err := pgx.ForEachRow(rows, []any{&namespace, &n}, func() error {
		live.Broken[namespace], all = n, all+n
		return nil
	})
	live.BrokenMore = all > job.MaxBroken
	return err
}
