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

// listWorkers shows a session that has expired for a minute more. A worker sends three heartbeats while its session
// lives, so it is silent if two of them are missing.
const listWorkers = `
SELECT s.id, s.name, s.handlers, s.slots, s.started_at, s.renewed_at, s.expires_at,
       now() > s.renewed_at + (s.expires_at - s.renewed_at) * 0.7
FROM session s
WHERE s.queue_id = $1 AND s.namespace_id = $2 AND s.expires_at > now() - interval '1 min' AND (s.name, s.id) > ($3, $4)
ORDER BY s.name, s.id LIMIT $5`

// workerRuns counts the runs in hand of each session, among the first $3 of the queue's runs for workers.
const workerRuns = `
SELECT r.session_id, count(*)
FROM (SELECT session_id, state FROM run WHERE queue_id = $1 AND handler IS NOT NULL LIMIT $3) r
WHERE r.session_id = ANY ($2) AND r.state <> 0 /* live */
GROUP BY r.session_id`

// maxWorkerRuns is how many runs of a queue are read to count those that its workers have.
const maxWorkerRuns = 20_000

// WorkerSessions lists the workers of a queue by name, after a mark. ErrNotFound: there is no such queue.
func (a *Admin) WorkerSessions(
	ctx context.Context, namespace uuid.UUID, queue string, after job.WorkerMark, limit int,
) (out []job.WorkerInfo, err error) {
	err = a.api.db.Tx(ctx, store.In(namespace), "list workers", func(tx pgx.Tx) error {
		var id int32
		err := tx.QueryRow(ctx, selectQueue, namespace, queue).Scan(&id)
		if store.NoRows(err) {
			return job.ErrNotFound
		}
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, listWorkers, id, namespace, after.Name, after.ID, limit)
		if err != nil {
			return err
		}
		if out, err = pgx.CollectRows(rows, scanWorker); err != nil || len(out) == 0 {
			return err
		}
		return countWorkerRuns(ctx, tx, id, out)
	})
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return out, nil
}

func scanWorker(row pgx.CollectableRow) (w job.WorkerInfo, err error) {
	err = row.Scan(
		&w.ID, &w.Name, &w.Handlers, &w.Slots, &w.StartedAt, &w.HeartbeatAt, &w.ExpiresAt, &w.Silent,
	)
	for _, at := range []*time.Time{&w.StartedAt, &w.HeartbeatAt, &w.ExpiresAt} {
		*at = at.UTC()
	}
	return w, err
}

func countWorkerRuns(ctx context.Context, tx pgx.Tx, queue int32, workers []job.WorkerInfo) error {
	ids := make([]uuid.UUID, len(workers))
	index := map[uuid.UUID]int{}
	for i, w := range workers {
		ids[i], index[w.ID] = w.ID, i
	}
	var live int64 // of the queue
	const count = `SELECT count(*) FROM (SELECT FROM run WHERE queue_id = $1 AND handler IS NOT NULL LIMIT $2) r`
	if err := tx.QueryRow(ctx, count, queue, maxWorkerRuns).Scan(&live); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, workerRuns, queue, ids, maxWorkerRuns)
	if err != nil {
		return err
	}
	var id uuid.UUID
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error {
		workers[index[id]].Running = n
		return nil
	})
	for i := range workers {
		workers[i].RunningMore = live == maxWorkerRuns
	}
	return err
}

// noteHandlers adds handlers to those of a session. A session that has them all is not written.
const noteHandlers = `
UPDATE session SET handlers = ARRAY(
    SELECT DISTINCT h FROM unnest(coalesce(handlers, '{}') || $3::text[]) h ORDER BY h LIMIT $4)
WHERE id = $1 AND queue_id = $2 AND NOT coalesce(handlers @> $3::text[], false)`

// NoteHandlers stores that a worker claims runs of some handlers.
func (a *API) NoteHandlers(ctx context.Context, w job.WorkerSession, handlers []string) error {
	return a.db.Tx(ctx, store.In(w.Namespace), "store the handlers of a worker", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, noteHandlers, w.ID, w.Queue, handlers, job.MaxNoted)
		return err
	})
}
