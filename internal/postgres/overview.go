package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// overviewCounts are numbers of the ledger, each counted up to its limit.
const overviewCounts = `
SELECT now(), belfry_clock_trusted(),
       (SELECT count(*) FROM (
            SELECT FROM (` + searchedQueues + `) q, LATERAL (
                SELECT FROM dead_letter d WHERE d.queue_id = q.id LIMIT @counted) d
            LIMIT @counted) x),
       p.paused, p.by_belfry,
       (SELECT count(*) FROM partition p
        WHERE NOT EXISTS (SELECT FROM session s WHERE s.id = p.owner AND s.expires_at > now())),
       (SELECT count(*) FROM (
            SELECT FROM audit_finding f WHERE f.namespace_id = @namespace LIMIT @findings) x),
       EXISTS (SELECT FROM job j WHERE j.namespace_id = @namespace),
       (SELECT held_until FROM cluster WHERE only_row AND held_until > '-infinity')
FROM (SELECT count(*) AS paused, count(*) FILTER (WHERE x.paused_by = 'belfry') AS by_belfry FROM (
          SELECT paused_by FROM job j
          WHERE j.namespace_id = @namespace AND j.state = 2 /* paused */ LIMIT @counted) x) p`

const overviewQueues = `
SELECT q.id, q.name, q.paused, q.paused_at, coalesce(s.workers, 0)
FROM (SELECT * FROM queue WHERE namespace_id = @namespace ORDER BY name LIMIT @counted) q LEFT JOIN (
    SELECT queue_id, count(*) AS workers FROM session
    WHERE namespace_id = @namespace AND expires_at > now() GROUP BY queue_id) s ON s.queue_id = q.id
ORDER BY q.name`

// overviewUnplanned counts the occurrences that are late and not planned, one for each job: nodes plan ahead, so there
// are none unless no node served a partition for longer than that.
const overviewUnplanned = `
SELECT count(*), min(x.next_due_at) FROM (
    SELECT c.next_due_at FROM (
        SELECT * FROM cursor
        WHERE namespace_id = @namespace AND broken_at IS NULL AND plan_at <= now() - @late::interval
        ORDER BY plan_at LIMIT @counted) c, LATERAL (
        SELECT FROM job j
        WHERE j.partition = c.partition AND j.cursor_id = c.id AND j.state = 1 /* active */
          AND (c.after_job IS NULL OR j.id > c.after_job) AND j.plan_from <= c.next_due_at
          AND (j.end_at IS NULL OR j.end_at > c.next_due_at)
        LIMIT @counted) j
    LIMIT @counted) x`

// searchedQueues are the queues that are searched for what happened in them: each search reads an index.
const searchedQueues = `SELECT id FROM queue WHERE namespace_id = @namespace ORDER BY name LIMIT @searched`

// The newest runs of the last hour that ended in a way, of each queue and then of all.
const (
	endedLastHour = `
    SELECT h.* FROM (` + searchedQueues + `) q, LATERAL (
        SELECT h.partition, h.job_id, h.queue_id, h.ended_at, h.reason, h.count FROM run_history h
        WHERE h.queue_id = q.id AND h.ended = @how AND h.ended <> 1 /* succeeded */
          AND h.ended_at >= now() - interval '1 hour'
        ORDER BY h.ended_at DESC LIMIT @limit) h
    ORDER BY h.ended_at DESC LIMIT @limit`

	overviewFailing = `
SELECT f.job_id, f.failed, (
           SELECT left(h.message, 200) FROM run_history h
           WHERE h.queue_id = f.queue_id AND h.ended = @how AND h.ended <> 1 /* succeeded */ AND h.ended_at = f.ended_at
             AND h.job_id = f.job_id LIMIT 1),
       (SELECT j.name FROM job j WHERE j.partition = f.partition AND j.id = f.job_id), f.read
FROM (SELECT h.partition, h.job_id, max(h.queue_id) AS queue_id, count(*) AS failed, max(h.ended_at) AS ended_at,
             sum(count(*)) OVER () AS read
      FROM (` + endedLastHour + `) h
      GROUP BY h.partition, h.job_id
      ORDER BY failed DESC, h.job_id LIMIT @failing) f
ORDER BY f.failed DESC, f.job_id`

	// Plan records once for all jobs of a cursor what none of them runs for: it counts for each of them.
	overviewSkips = `
SELECT coalesce(x.reason, ''), sum(coalesce(x.count, 1))::bigint, count(*)
FROM (SELECT h.reason, h.count FROM (` + endedLastHour + `) h
      UNION ALL
      (SELECT s.reason, s.count * coalesce(j.mine, 0) FROM (
           SELECT * FROM cursor_skip
           WHERE namespace_id = @namespace AND ` + planned + `
             AND created_at AT TIME ZONE 'UTC' >= (now() - interval '1 hour') AT TIME ZONE 'UTC'
           ORDER BY created_at AT TIME ZONE 'UTC' DESC LIMIT @limit) s LEFT JOIN LATERAL (
           SELECT 1 AS mine FROM job j
           WHERE j.partition = s.partition AND j.cursor_id = s.cursor_id AND j.state = 1 /* active */
             AND ` + skippedFor + `
           LIMIT @limit) j ON true
       LIMIT @limit)) x
GROUP BY 1 ORDER BY 2 DESC, 1`
)

const overviewAudit = `
SELECT coalesce(sum(s.audited), 0)::bigint, max(s.minute) FILTER (WHERE s.audited > 0) FROM stat_minute s
WHERE s.namespace_id = '00000000-0000-0000-0000-000000000000' AND s.queue_id = 0
  AND s.minute >= now() - interval '1 hour'`

// Overview reads how a namespace is doing.
func (v *Views) Overview(ctx context.Context, namespace uuid.UUID) (o job.Overview, err error) {
	args := func(more pgx.NamedArgs) pgx.NamedArgs {
		more["namespace"], more["searched"] = namespace, job.MaxSearched
		return more
	}
	err = v.db.Tx(ctx, store.In(namespace, store.Lists, store.NoBitmaps, store.Timeout("4s")), "read the overview", func(tx pgx.Tx) error {
		o = job.Overview{Namespace: namespace}
		var batch pgx.Batch
		counts := args(pgx.NamedArgs{"counted": job.MaxOverviewCount + 1, "findings": job.MaxFindings + 1})
		batch.Queue(overviewCounts, counts).QueryRow(func(row pgx.Row) error { return scanCounts(row, &o) })
		batch.Queue(overviewQueues, counts).Query(func(rows pgx.Rows) (err error) {
			o.Queues, err = pgx.CollectRows(rows, scanOverviewQueue)
			return err
		})
		counts["late"] = job.LateNow
		batch.Queue(overviewUnplanned, counts).QueryRow(func(row pgx.Row) error {
			var oldest *time.Time
			err := row.Scan(&o.Unplanned, &oldest)
			o.UnplannedFrom = store.OrZero(oldest).UTC()
			return err
		})
		batch.Queue(overviewFailing, args(pgx.NamedArgs{
			"how": int16(job.EndedFailed), "limit": job.MaxFailures, "failing": job.MaxFailing,
		})).Query(func(rows pgx.Rows) error { return scanFailing(rows, &o) })
		batch.Queue(overviewSkips, args(pgx.NamedArgs{"how": int16(job.EndedSkipped), "limit": job.MaxSkips})).
			Query(func(rows pgx.Rows) error { return scanSkips(rows, &o) })
		batch.Queue(overviewAudit).QueryRow(func(row pgx.Row) error {
			var at *time.Time
			err := row.Scan(&o.Audited, &at)
			o.AuditedAt = store.OrZero(at).UTC()
			return err
		})
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return o, err
	}
	if len(o.Queues) > job.MaxSearched {
		o.DeadLetters.More, o.FailingMore, o.SkippedMore = true, true, true
	}
	to := o.Now.Truncate(time.Minute).Add(time.Minute)
	s, err := v.Stats(ctx, job.StatParams{
		Namespace: namespace, From: to.Add(-job.OverviewMinutes * time.Minute), To: to, Step: time.Minute,
	})
	if err == nil {
		o.Minutes = s.Series[0].Points
	}
	return o, err
}

func scanCounts(row pgx.Row, o *job.Overview) error {
	var dead, paused, belfry, findings int64
	var held *time.Time
	err := row.Scan(&o.Now, &o.ClockTrusted, &dead, &paused, &belfry, &o.Unowned, &findings, &o.HasJobs, &held)
	o.Now, o.HeldUntil = o.Now.UTC(), store.OrZero(held).UTC()
	o.DeadLetters, o.PausedJobs = job.UpTo(dead, job.MaxOverviewCount), job.UpTo(paused, job.MaxOverviewCount)
	o.PausedBelfry = job.Capped{Count: belfry, More: o.PausedJobs.More && belfry > 0}
	o.Findings = job.UpTo(findings, job.MaxFindings)
	return err
}

func scanOverviewQueue(row pgx.CollectableRow) (q job.OverviewQueue, err error) {
	var at *time.Time
	err = row.Scan(&q.ID, &q.Name, &q.Paused, &at, &q.Workers)
	q.PausedAt = store.OrZero(at).UTC()
	return q, err
}

func scanFailing(rows pgx.Rows, o *job.Overview) error {
	var f job.FailingJob
	var message, name *string
	var read int64
	_, err := pgx.ForEachRow(rows, []any{&f.ID, &f.Failed, &message, &name, &read}, func() error {
		f.Message, f.Name = store.OrZero(message), store.OrZero(name)
		o.Failing, o.FailingMore = append(o.Failing, f), read >= job.MaxFailures
		return nil
	})
	return err
}

func scanSkips(rows pgx.Rows, o *job.Overview) error {
	var s job.ReasonCount
	var n, read int64
	_, err := pgx.ForEachRow(rows, []any{&s.Reason, &s.Count, &n}, func() error {
		if read += n; s.Count > 0 { // a range may be of no active job
			o.Skipped = append(o.Skipped, s)
		}
		return nil
	})
	o.SkippedMore = read >= job.MaxSkips
	return err
}
