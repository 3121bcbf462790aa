package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// maxReconciled is how many runs get a permit in one transaction.
const maxReconciled = 500

// lockWithoutPermit locks live runs of a queue that have no permit, in the order
// in which every transaction locks runs. $2: partitions; NULL: all.
const lockWithoutPermit = `
SELECT ctid::text FROM run
WHERE queue_id = $1 AND state <> 0 /* live */ AND queue_permit IS NULL
  AND ($2::smallint[] IS NULL OR partition = ANY ($2))
ORDER BY partition, job_id, due_at, seq LIMIT $3 FOR UPDATE`

// addPermits gives rows that are locked, so that their addresses hold, the numbers
// from $2 on.
const addPermits = `
WITH numbered AS MATERIALIZED (
    SELECT x.address::tid AS address, $2::bigint + x.n - 1 AS n FROM unnest($3::text[]) WITH ORDINALITY x (address, n)
), marked AS (
    UPDATE run SET queue_permit = (SELECT x.n FROM numbered x WHERE x.address = run.ctid)
    WHERE ctid = ANY (ARRAY(SELECT address FROM numbered))
    RETURNING queue_permit, partition, job_id, due_at, seq
)
INSERT INTO permit (limit_kind, limit_id, number, queue_id, partition, job_id, due_at, seq)
SELECT 1 /* queue */, $1::integer, queue_permit, $1::integer, partition, job_id, due_at, seq FROM marked`

// permitLive gives the live runs of a queue that has just got its first limit their
// permits, even if they are more than the limit. It waits for claims that did not
// see the limit yet: each holds the shared lock of its session, which is a node's or
// that of a worker of this queue. If this node dies meanwhile, Reconcile does the rest.
func (e *Engine) permitLive(ctx context.Context, queue int32) error {
	const claiming = `SELECT id FROM session WHERE expires_at > '-infinity' AND (queue_id IS NULL OR queue_id = $1)`
	rows, err := e.db.Query(ctx, claiming, queue)
	if err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	for _, id := range sessions {
		if err := awaitClaims(ctx, e.db, id); err != nil {
			return fmt.Errorf("wait for claims: %w", err)
		}
	}
	_, err = e.addPermits(ctx, queue, nil)
	return err
}

// awaitClaims waits until the claims of a session that are under way have ended. Other claims of the session, which are
// those of all namespaces if it is a node's, wait behind it. So it waits for a moment only, and then again, for longer.
func awaitClaims(ctx context.Context, db store.All, session uuid.UUID) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		var batch pgx.Batch
		batch.Queue(`SELECT set_config('lock_timeout', $1, true)`, strconv.FormatInt(wait.Milliseconds(), 10))
		batch.Queue(`SELECT pg_advisory_xact_lock($1)`, store.SessionLock(session))
		if err := db.SendBatch(ctx, &batch).Close(); store.Code(err) != store.LockNotAvailable {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// addPermits gives live runs of a limited queue that have no permit one.
func (e *Engine) addPermits(ctx context.Context, queue int32, partitions []int16) (added int, err error) {
	for {
		n := 0
		err := e.db.Tx(ctx, "add permits", func(tx pgx.Tx) error {
			lock := `SELECT pg_advisory_xact_lock(hashint8extended($1, 1 /* queue */))`
			if _, err := tx.Exec(ctx, lock, int64(queue)); err != nil {
				return err
			}
			var first int64 // after the lock, so that numbers grow under it
			if err := tx.QueryRow(ctx, `SELECT nextval('permit_number')`).Scan(&first); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, lockWithoutPermit, queue, partitions, maxReconciled)
			if err != nil {
				return err
			}
			addresses, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, addPermits, queue, first, addresses)
			n = int(tag.RowsAffected())
			return err
		})
		added += n
		if err != nil || n < maxReconciled {
			return added, err
		}
	}
}

// removePermits removes permits without a live run. A permit and its run are
// written together, so one statement sees both or neither. Reports of nodes that
// died go too, and those that were written by a clock that was ahead.
const removePermits = `
WITH forgotten AS (
    DELETE FROM queue_waiter WHERE reported_at NOT BETWEEN now() - interval '1 minute' AND now() + interval '1 minute'
)
DELETE FROM permit p WHERE p.partition = ANY ($1) AND NOT EXISTS (
    SELECT FROM run r
    WHERE r.partition = p.partition AND r.job_id = p.job_id AND r.due_at = p.due_at AND r.seq = p.seq
      AND r.state <> 0 /* live */
      AND CASE p.limit_kind WHEN 1 /* queue */ THEN r.queue_permit ELSE r.key_permit END = p.number)`

const queuesWithoutPermits = `
SELECT DISTINCT queue_id FROM run
WHERE partition = ANY ($1) AND state <> 0 /* live */ AND queue_permit IS NULL
  AND queue_id = ANY (ARRAY(SELECT id FROM queue WHERE limited))`

// Reconcile makes the permits of partitions match their live runs, and moves pending
// runs to the queue and handler of their job.
func (e *Engine) Reconcile(
	ctx context.Context, partitions []int16,
) (removed, added int, moved []job.Key, err error) {
	if removed, added, err = e.reconcilePermits(ctx, partitions); err != nil {
		return 0, 0, nil, err
	}
	moved, err = e.reconcileRuns(ctx, partitions)
	return removed, added, moved, err
}

// reconcilePermits makes the permits of partitions match their live runs. A permit
// without a run would be lost for ever, and a run without a permit would not be
// counted; neither should happen.
func (e *Engine) reconcilePermits(ctx context.Context, partitions []int16) (removed, added int, err error) {
	tag, err := e.db.Exec(ctx, removePermits, partitions)
	if err != nil {
		return 0, 0, fmt.Errorf("remove permits without a run: %w", err)
	}
	rows, err := e.db.Query(ctx, queuesWithoutPermits, partitions)
	if err != nil {
		return 0, 0, fmt.Errorf("find live runs without a permit: %w", err)
	}
	queues, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	for _, q := range queues {
		var n int
		if n, err = e.addPermits(ctx, q, partitions); err != nil {
			break
		}
		added += n
	}
	return int(tag.RowsAffected()), added, err
}
