package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// wantDead holds for what a filter selects. Every statement with it has a plan of its own (pool.Lists), so a condition
// that the filter does not have costs nothing, and one on the cause finds its index.
const wantDead = `d.failed_at >= @failed_from AND d.failed_at < @failed_before
      AND (@reason = '' OR d.reason = @reason) AND (@cause = '' OR d.cause = @cause)`

const deadColumns = `d.partition, d.job_id, d.due_at, d.seq, d.failed_at, d.attempt, d.reason, d.status, d.cause,
           d.message, d.queue_id`

const deadBefore = `NOT t.up AND d.failed_at >= w.from_at AND d.failed_at < w.to_at
      AND (d.failed_at, d.job_id, d.due_at, d.seq) < (@after_failed, @after_job, @after_due, @after_seq)
      AND ` + wantDead + `
    ORDER BY d.failed_at DESC, d.job_id DESC, d.due_at DESC, d.seq DESC LIMIT @limit`

func windowedDead(sql string) string {
	return selectDead + windowed(sql, deadColumns, "dead_letter", "d") + orderDead
}

const selectDead = `
SELECT d.partition, d.job_id, d.due_at, d.seq, d.failed_at, d.attempt, d.reason, d.status, d.cause, d.message,
       (SELECT j.name FROM job j WHERE j.partition = d.partition AND j.id = d.job_id),
       (SELECT q.name FROM queue q WHERE q.id = d.queue_id)
FROM (`

const orderDead = `) d
ORDER BY d.failed_at DESC, d.job_id DESC, d.due_at DESC, d.seq DESC`

// ofQueue is true for dead letters of the queue that the filter names, if it names one.
const ofQueue = `(@queue = ''
           OR d.queue_id = (SELECT id FROM queue WHERE namespace_id = @namespace AND name = @queue))`

// deadOfJob and deadOfQueues read windows of the times of failure.
var deadOfJob = windowedDead(`
    SELECT ` + deadColumns + ` FROM dead_letter d
    WHERE d.partition = @partition AND d.job_id = @job AND ` + ofQueue + ` AND ` + deadBefore)

var deadOfQueues = windowedDead(`
    SELECT d.* FROM queue q, LATERAL (
        SELECT ` + deadColumns + ` FROM dead_letter d
        WHERE d.queue_id = q.id AND ` + deadBefore + `) d
    WHERE q.namespace_id = @namespace AND (@queue = '' OR q.name = @queue)
    ORDER BY d.failed_at DESC, d.job_id DESC, d.due_at DESC, d.seq DESC LIMIT @limit`)

func deadArgs(namespace uuid.UUID, f job.DeadFilter) pgx.NamedArgs {
	return pgx.NamedArgs{
		"namespace": namespace, "partition": job.PartitionOf(f.Job), "job": f.Job, "any_job": f.Job == uuid.Nil,
		"queue": f.Queue, "reason": string(f.Reason), "cause": f.Cause,
		"failed_from": f.FailedFrom, "failed_before": orFar(f.FailedBefore),
	}
}

// DeadLetters lists the dead letters of a namespace, newest first. The work for a page is bounded, as in Runs.
func (a *API) DeadLetters(ctx context.Context, q job.DeadQuery) (page job.DeadPage, err error) {
	args := deadArgs(q.Namespace, q.DeadFilter)
	args["after_failed"], args["after_job"], args["after_due"], args["after_seq"] = far, uuid.Nil, time.Time{}, int16(0)
	sql, w := deadOfQueues, walk{
		bottom: store.Later(q.FailedFrom, time.Unix(0, 0)),
		to:     orFar(q.FailedBefore),
		width:  24 * time.Hour,
	}
	if q.Job != uuid.Nil {
		sql, w.width = deadOfJob, allTime
	}
	if a := q.After; !a.At.IsZero() {
		w.to = earlier(w.to, a.At)
		if a.Key.Job != uuid.Nil {
			args["after_failed"], args["after_job"] = a.EndedAt, a.Key.Job
			args["after_due"], args["after_seq"] = a.Key.DueAt, a.Key.Seq
		}
	}
	if w.now, err = a.now(ctx, q.Namespace); err == nil {
		args["limit"] = q.Limit + 1
		err = w.back(ctx, args, func() error {
			return a.db.Query(ctx, store.In(q.Namespace, listSettings(false)...), func(rows pgx.Rows) (err error) {
				page.Letters, err = pgx.CollectRows(rows, scanDead)
				return err
			}, sql, args)
		})
	}
	if err != nil {
		return job.DeadPage{}, fmt.Errorf("list dead letters: %w", err)
	}
	isRest := func(d job.DeadLetter) bool { return d.Partition == restPartition }
	if rest := slices.IndexFunc(page.Letters, isRest); rest >= 0 {
		page.Next = &job.RunMark{At: page.Letters[rest].FailedAt}
		page.Letters = slices.DeleteFunc(page.Letters, isRest)
	}
	if len(page.Letters) > q.Limit {
		page.Letters = page.Letters[:q.Limit]
		last := page.Letters[q.Limit-1]
		page.Next = &job.RunMark{At: last.FailedAt.Add(store.Instant), Key: last.Key, EndedAt: last.FailedAt}
	}
	return page, nil
}

func scanDead(row pgx.CollectableRow) (d job.DeadLetter, err error) {
	var name, queue *string
	var status int16
	err = row.Scan(
		&d.Partition, &d.Job, &d.DueAt, &d.Seq, &d.FailedAt, &d.Attempt, &d.Reason, &status, &d.Cause, &d.Message,
		&name, &queue,
	)
	d.DueAt, d.FailedAt, d.Status = d.DueAt.UTC(), d.FailedAt.UTC(), int(status)
	d.JobName, d.Queue = store.OrZero(name), store.OrZero(queue)
	return d, err
}
