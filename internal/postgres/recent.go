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

const (
	// recentRead is how many entries of a job are read. A run has one for each time it ended.
	recentRead = 2 * job.MaxRecent
	// recentSearches bounds the searches of a page: each job is searched for in each day of history.
	recentSearches = 2_000
)

// skippedFor is a condition on an active job and a range of its cursor: the job had this cursor at that time.
const skippedFor = `s.from_due >= j.plan_from AND (j.end_at IS NULL OR s.to_due < j.end_at)`

// recentRuns reads the newest entries of jobs that are more than planned, and what their cursors skipped while the job
// was one of theirs: since plan_from a job is active and has this cursor.
const recentRuns = `
SELECT k.n, e.job_id, e.due_at, e.seq, e.version, e.run_at, e.started_at, e.ended_at, e.state, e.ended, e.attempt,
       e.origin, e.due_to, e.count, e.reason, e.first, e.undelivered, now()
FROM (SELECT unnest(@numbers::integer[]) AS n, unnest(@partitions::smallint[]) AS partition,
             unnest(@jobs::uuid[]) AS job_id) k, LATERAL (
    SELECT * FROM (
        (SELECT ` + liveBrief + `
         FROM run r
         WHERE r.partition = k.partition AND r.job_id = k.job_id
           AND (r.state <> 0 /* pending */ OR r.attempt > 0 OR r.run_at <= now())
         ORDER BY r.due_at DESC LIMIT @limit)
        UNION ALL
        (SELECT ` + endedBrief + `
         FROM run_history h
         WHERE h.job_id = k.job_id AND h.ended_at >= @since
         ORDER BY h.due_at DESC LIMIT @limit)
        UNION ALL
        (SELECT k.job_id, s.* FROM (
             SELECT cursor_id, plan_from, end_at FROM job
             WHERE partition = k.partition AND id = k.job_id AND state + 0 = 1 /* active */ LIMIT 1) j, LATERAL (
             SELECT ` + skipBrief + `
             FROM cursor_skip s
             WHERE s.partition = k.partition AND s.cursor_id = j.cursor_id AND ` + skippedFor + ` AND ` + planned + `
             ORDER BY s.from_due DESC LIMIT @limit) s)) u
    ORDER BY u.due_at DESC, u.seq DESC, u.ended_at DESC LIMIT @limit) e
ORDER BY k.n, e.due_at DESC, e.seq DESC, e.ended_at DESC`

// RecentRuns returns the newest runs and skips of jobs, in the order of the jobs. One statement reads them. The
// more jobs there are, the fewer days of history it reads, so that its work is bounded.
func (v *Views) RecentRuns(ctx context.Context, namespace uuid.UUID, jobs []job.Job) ([]job.Recent, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	read := make([][]job.Entry, len(jobs))
	numbers := make([]int32, len(jobs))
	for i := range jobs {
		numbers[i] = int32(i)
	}
	partitions, ids := jobKeys(len(jobs), func(i int) uuid.UUID { return jobs[i].ID })
	now, oldest, err := v.historyDays(ctx, namespace)
	if err != nil {
		return nil, err
	}
	since := now.Add(-time.Duration(max(recentSearches/len(jobs), 1)) * 24 * time.Hour)
	settings := store.In(namespace, store.Lists, store.NoBitmaps, store.InOrder, store.Timeout("5s"))
	err = v.db.Query(ctx, settings, func(rows pgx.Rows) error {
		clear(read)
		var n int32
		return eachBrief(rows, []any{&n}, func(e job.Entry) { read[n] = append(read[n], e) })
	}, recentRuns, pgx.NamedArgs{
		"numbers": numbers, "partitions": partitions, "jobs": ids, "limit": recentRead, "since": since, "far": far,
	})
	if err != nil {
		return nil, fmt.Errorf("read recent runs: %w", err)
	}
	out := make([]job.Recent, len(jobs))
	for i := range out {
		// Older runs may be in days that were not read, or behind those that ended several times.
		older := oldest.Before(since) && jobs[i].CreatedAt.Before(since)
		out[i] = job.NewRecent(read[i], older || len(read[i]) == recentRead)
	}
	return out, nil
}

// historyDays reads the clock, and the first day of history that is still there.
func (v *Views) historyDays(ctx context.Context, namespace uuid.UUID) (now, oldest time.Time, err error) {
	err = v.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&now, &oldest}, func() error { return nil })
		return err
	}, `SELECT now(), `+historyFrom)
	if err != nil {
		err = fmt.Errorf("read the start of history: %w", err)
	}
	return now.UTC(), oldest.UTC(), err
}
