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

// Only limited queues know how many runs are live and how many wait: the runs of others are not counted.
const selectQueues = `
SELECT id, name, paused, paused_at, note, created_at, coalesce(max_running, 0), coalesce(rate, 0),
       coalesce(rate_seconds, 0), coalesce(burst, 0),
       CASE WHEN limited THEN (
           SELECT count(*) FROM permit WHERE limit_kind = 1 /* queue */ AND limit_id = queue.id) ELSE 0 END,
       CASE WHEN limited THEN (
           SELECT coalesce(sum(waiting), 0) FROM queue_waiter
           WHERE queue_id = queue.id AND reported_at > now() - interval '2 s') ELSE 0 END
FROM queue
WHERE namespace_id = $1 `

func scanQueue(row pgx.CollectableRow) (q job.Queue, err error) {
	var paused *time.Time
	l := &q.Limits
	err = row.Scan(
		&q.ID, &q.Name, &q.Paused, &paused, &q.Note, &q.CreatedAt, &l.MaxRunning, &l.Rate.Count, &l.Rate.Seconds, &l.Burst,
		&q.Running, &q.Waiting,
	)
	q.PausedAt, q.CreatedAt = store.OrZero(paused).UTC(), q.CreatedAt.UTC()
	return q, err
}

// Queues lists the queues of a namespace by name, after a given one.
func (a *API) Queues(ctx context.Context, namespace uuid.UUID, after string, limit int) (out []job.Queue, err error) {
	err = a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, scanQueue)
		return err
	}, selectQueues+`AND name > $2 ORDER BY name LIMIT $3`, namespace, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return out, nil
}

// Queue returns a queue of a namespace, or ErrNotFound.
func (a *API) Queue(ctx context.Context, namespace uuid.UUID, name string) (q job.Queue, err error) {
	err = a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		q, err = pgx.CollectExactlyOneRow(rows, scanQueue)
		return err
	}, selectQueues+`AND name = $2`, namespace, name)
	if store.NoRows(err) {
		err = job.ErrNotFound
	}
	if err != nil {
		return q, fmt.Errorf("read queue: %w", err)
	}
	return q, nil
}

// PauseQueue keeps the runs of a queue from starting. All nodes notice within about a second. Live runs go on.
func (a *API) PauseQueue(ctx context.Context, o job.QueueParams) error {
	return a.setQueue(ctx, o, "queue.pause", true)
}

// ResumeQueue lets the runs of a queue start again.
func (a *API) ResumeQueue(ctx context.Context, o job.QueueParams) error {
	return a.setQueue(ctx, o, "queue.resume", false)
}

const pauseQueue = `
UPDATE queue SET paused = $3, paused_at = CASE WHEN $3 THEN now() END, note = $4
WHERE namespace_id = $1 AND name = $2`

func (a *API) setQueue(ctx context.Context, o job.QueueParams, action string, paused bool) error {
	return a.db.Tx(ctx, store.In(o.Namespace), action, func(tx pgx.Tx) error {
		var was bool
		const lock = `SELECT paused FROM queue WHERE namespace_id = $1 AND name = $2 FOR UPDATE`
		err := tx.QueryRow(ctx, lock, o.Namespace, o.Name).Scan(&was)
		switch {
		case store.NoRows(err):
			return job.ErrNotFound
		case err != nil:
			return err
		case was == paused:
			return nil
		}
		_, err = tx.Exec(ctx, pauseQueue, o.Namespace, o.Name, paused, o.Note)
		if err != nil {
			return err
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, action, o.Name}, struct {
			Note string `json:"note,omitempty"`
		}{o.Note})
	})
}

// PausedAndLimitedQueues lists the queues of all namespaces that are paused, and those that have a limit.
func (e *Engine) PausedAndLimitedQueues(ctx context.Context) (paused, limited []int32, err error) {
	const special = `SELECT ARRAY(SELECT id FROM queue WHERE paused), ARRAY(SELECT id FROM queue WHERE limited)`
	err = e.db.QueryRow(ctx, special).Scan(&paused, &limited)
	if err != nil {
		return nil, nil, fmt.Errorf("list paused and limited queues: %w", err)
	}
	return paused, limited, nil
}
