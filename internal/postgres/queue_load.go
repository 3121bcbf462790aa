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

// countFed counts the runs of workers of one queue that are live or due within a minute, by the index that workers claim
// by: other queues cannot hide them.
const countFed = `
SELECT count(*) FILTER (WHERE state <> 0 /* live */),
       count(*) FILTER (WHERE state = 0 /* pending */ AND run_at <= now()),
       count(*) FILTER (WHERE state = 0 /* pending */ AND run_at > now()),
       min(run_at) FILTER (WHERE state = 0 /* pending */ AND run_at <= now())
FROM (
    SELECT state, run_at FROM run
    WHERE queue_id = @queue AND handler IS NOT NULL AND run_at <= now() + interval '1 min'
    LIMIT @limit) r`

// lastAttempts are those of the last minutes of a day in which attempts of the queue ended.
const lastAttempts = `
SELECT coalesce(sum(attempts), 0)::bigint, coalesce(sum(attempt_ms), 0)::bigint
FROM (
    SELECT attempts, attempt_ms FROM stat_minute
    WHERE namespace_id = @namespace AND queue_id = @queue AND minute > now() - interval '1 day' AND attempts > 0
    ORDER BY minute DESC LIMIT 60) s`

// QueueLoad returns what the slots of a queue have to do. Of the runs it counts only those of workers, and it may not
// count all of them.
func (v *Views) QueueLoad(ctx context.Context, namespace uuid.UUID, queue int32) (l job.QueueLoad, err error) {
	in := store.In(namespace, store.Lists, store.NoBitmaps, store.Timeout(liveTime))
	err = withLimit(ctx, func(limit int) error {
		args := pgx.NamedArgs{"namespace": namespace, "queue": queue, "limit": limit}
		return v.db.Tx(ctx, in, "read the load of a queue", func(tx pgx.Tx) error {
			var batch pgx.Batch
			batch.Queue(countFed, args).QueryRow(func(row pgx.Row) error {
				var oldest *time.Time
				err := row.Scan(&l.Running, &l.Due, &l.Planned, &oldest)
				l.OldestDueAt = store.OrZero(oldest).UTC()
				return err
			})
			batch.Queue(lastAttempts, args).QueryRow(func(row pgx.Row) error {
				var ms int64
				err := row.Scan(&l.Attempts, &ms)
				l.Took = time.Duration(ms) * time.Millisecond
				return err
			})
			return tx.SendBatch(ctx, &batch).Close()
		})
	})
	if store.GaveUp(ctx, err) {
		err = fmt.Errorf("%w: %w", job.ErrSlowList, err)
	}
	return l, err
}
