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

// Timeouts of reading all live runs, and those of a namespace. Tests allow more: a busy machine must not decide.
var liveTime, ownTime = "100ms", "300ms"

const (
	liveSome = 30_000 // live runs that are read if there is no time for all

	// A namespace whose live runs are read job by job.
	ownJobs = 5000
	ownRuns = 10_000
)

// liveCounts reads the live runs of the whole cluster. There is no index by state or run time, see
// docs/decisions/0044. A run whose process has died does not run: it is due until a node rescues it.
const liveCounts = `
SELECT r.*, q.namespace_id FROM (
SELECT queue_id, count(*) FILTER (WHERE state = 1 /* running */ AND lost IS NOT TRUE),
       count(*) FILTER (WHERE state = 2 /* waiting */),
       count(*) FILTER (WHERE state = 0 /* pending */ AND run_at > now() AND attempt > 0),
       count(*) FILTER (WHERE state = 0 /* pending */ AND run_at <= now()),
       count(*) FILTER (WHERE (state = 0 /* pending */ OR lost) AND run_at <= now() - @late::interval),
       count(*) FILTER (WHERE state = 0 /* pending */ AND run_at <= now() AND handler IS NOT NULL),
       min(run_at) FILTER (WHERE (state = 0 /* pending */ OR lost) AND run_at <= now()), count(*)
FROM (SELECT queue_id, state, run_at, attempt, handler, state = 1 /* running */ AND session_id NOT IN (
          SELECT s.id FROM session s WHERE s.expires_at > '-infinity' AND NOT (` + expired + `)) AS lost
      FROM `

const (
	liveOfAll  = liveCounts + `run) r GROUP BY queue_id` + liveNames
	liveOfSome = liveCounts + `run LIMIT @runs) r GROUP BY queue_id` + liveNames
	liveNames  = `) r JOIN queue q ON q.id = r.queue_id`

	// The key of a run begins with its job, so the runs of few jobs are found among any number of others.
	liveOfJobs = liveCounts + `(` + jobsOf + `) j, LATERAL (
          SELECT * FROM run WHERE run.partition = j.partition AND run.job_id = j.id LIMIT @runs) r
      LIMIT @runs) r GROUP BY queue_id` + liveNames
	jobsOf    = `SELECT partition, id, cursor_id FROM job WHERE namespace_id = @namespace ORDER BY id LIMIT @jobs`
	countJobs = `SELECT count(*) FROM (` + jobsOf + `) j`
)

// unplannedCounts counts the occurrences that are late and not planned, one for each job: nodes plan ahead, so there
// are none unless no node served a partition for longer than that.
const unplannedCounts = unplannedFrom + `partition p, LATERAL (
        SELECT * FROM cursor WHERE partition = p.id AND plan_at <= now() - @late::interval
        ORDER BY plan_at LIMIT @unplanned) c` + unplannedJobs

const unplannedOfNamespace = unplannedFrom + `(
        SELECT * FROM cursor
        WHERE namespace_id = @namespace AND broken_at IS NULL AND plan_at <= now() - @late::interval
        ORDER BY plan_at LIMIT @unplanned) c` + unplannedJobs

const (
	unplannedFrom = `
SELECT x.namespace_id, count(*), min(x.next_due_at) FROM (
    SELECT c.namespace_id, c.next_due_at FROM `

	unplannedJobs = `, LATERAL (
        SELECT FROM job j
        WHERE j.partition = c.partition AND j.cursor_id = c.id AND j.state = 1 /* active */
          AND (c.after_job IS NULL OR j.id > c.after_job) AND j.plan_from <= c.next_due_at
          AND (j.end_at IS NULL OR j.end_at > c.next_due_at)
        LIMIT @unplanned) j
    WHERE c.broken_at IS NULL LIMIT @unplanned) x
GROUP BY x.namespace_id`
)

// brokenCounts counts schedules that cannot be planned, which are few.
const brokenCounts = `
SELECT b.namespace_id, count(*) FROM (
    SELECT namespace_id FROM cursor WHERE broken_at IS NOT NULL ORDER BY broken_at LIMIT @broken) b
GROUP BY b.namespace_id`

const brokenOfJobs = `
SELECT @namespace::uuid, count(*) FROM (SELECT DISTINCT j.partition, j.cursor_id FROM (` + jobsOf + `) j) j, LATERAL (
    SELECT FROM cursor c
    WHERE c.partition = j.partition AND c.id = j.cursor_id AND c.broken_at IS NOT NULL LIMIT 1) c`

// LiveRuns counts live runs by queue, and broken schedules. If there are too many to read in time, it reads some of them and says so.
func (a *Admin) LiveRuns(ctx context.Context) (job.Live, error) {
	live, err := a.liveRuns(ctx, liveOfAll, 0)
	if gaveUp(ctx, err) {
		live, err = a.someLiveRuns(ctx, liveSome)
	}
	if gaveUp(ctx, err) {
		return job.Live{}, nil
	}
	if err != nil {
		return live, fmt.Errorf("count live runs: %w", err)
	}
	return live, nil
}

func (a *Admin) someLiveRuns(ctx context.Context, n int) (job.Live, error) {
	live, err := a.liveRuns(ctx, liveOfSome, n)
	live.Complete = false
	return live, err
}

func (a *Admin) liveRuns(ctx context.Context, sql string, most int) (job.Live, error) {
	live, batch := newLive(), liveBatch(pool.Timeout(liveTime))
	args := pgx.NamedArgs{
		"late": job.LateNow, "runs": most, "unplanned": job.MaxUnplanned + 1, "broken": job.MaxBroken + 1,
	}
	batch.Queue(sql, args).Query(func(rows pgx.Rows) error {
		_, err := readLive(rows, &live)
		return err
	})
	if sql == liveOfAll {
		batch.Queue(unplannedCounts, args).Query(func(rows pgx.Rows) error { return readUnplanned(rows, &live) })
	}
	batch.Queue(brokenCounts, args).Query(func(rows pgx.Rows) error { return readBroken(rows, &live) })
	return live, a.db.SendBatch(ctx, batch).Close()
}

// LiveRunsOf counts the live runs of one namespace, and its broken schedules, job by job. So it is complete for a
// namespace with few jobs and few live runs, however many there are of others. Runs of deleted jobs are not in it.
func (a *Admin) LiveRunsOf(ctx context.Context, namespace uuid.UUID) (job.Live, error) {
	live, err := a.liveRunsOf(ctx, namespace, ownJobs, ownRuns)
	if gaveUp(ctx, err) {
		return job.Live{}, nil
	}
	if err != nil {
		return live, fmt.Errorf("count the live runs of a namespace: %w", err)
	}
	return live, nil
}

func (a *Admin) liveRunsOf(ctx context.Context, namespace uuid.UUID, maxJobs, maxRuns int64) (job.Live, error) {
	live, batch := newLive(), liveBatch(pool.Timeout(ownTime), pool.Lists, pool.InOrder)
	args := pgx.NamedArgs{
		"namespace": namespace, "late": job.LateNow, "jobs": maxJobs + 1, "runs": maxRuns + 1,
		"unplanned": job.MaxUnplanned + 1,
	}
	var jobs, runs int64
	batch.Queue(countJobs, args).QueryRow(func(row pgx.Row) error { return row.Scan(&jobs) })
	batch.Queue(liveOfJobs, args).Query(func(rows pgx.Rows) (err error) {
		runs, err = readLive(rows, &live)
		return err
	})
	batch.Queue(unplannedOfNamespace, args).Query(func(rows pgx.Rows) error { return readUnplanned(rows, &live) })
	batch.Queue(brokenOfJobs, args).Query(func(rows pgx.Rows) error { return readBroken(rows, &live) })
	err := a.db.SendBatch(ctx, batch).Close()
	live.Complete = live.Complete && jobs <= maxJobs && runs <= maxRuns
	return live, err
}

func newLive() job.Live {
	return job.Live{
		Queues: map[int32]job.LiveCount{}, Namespaces: map[uuid.UUID]job.LiveCount{}, Complete: true, Broken: map[uuid.UUID]int64{},
		Unplanned: map[uuid.UUID]job.Unplanned{},
	}
}

// liveBatch begins a batch with the settings of these reads: one round trip, one transaction.
func liveBatch(settings ...pool.Settings) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(pool.Apply(append(settings, pool.NoBitmaps)...) + `, set_config('jit', 'off', true),
		set_config('max_parallel_workers_per_gather', '0', true)`)
	return batch
}

// readLive adds up the runs of queues. It returns how many were read.
func readLive(rows pgx.Rows, live *job.Live) (all int64, err error) {
	var c job.LiveCount
	var oldest *time.Time
	var namespace uuid.UUID
	var n int64
	_, err = pgx.ForEachRow(rows, []any{
		&c.Queue, &c.Running, &c.Accepted, &c.Retrying, &c.Due, &c.Late, &c.DuePulled, &oldest, &n, &namespace,
	}, func() error {
		all += n
		c.OldestDue = time.Time{}
		if oldest != nil {
			c.OldestDue = oldest.UTC()
		}
		live.Queues[c.Queue] = c
		sum := live.Namespaces[namespace]
		sum.Add(c)
		live.Namespaces[namespace] = sum
		return nil
	})
	return all, err
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
