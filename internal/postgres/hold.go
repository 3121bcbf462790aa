package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

const limitQueue = `
UPDATE queue SET max_running = nullif($3, 0), rate = nullif($4, 0), rate_seconds = nullif($5, 0), burst = nullif($6, 0) WHERE namespace_id = $1 AND name = $2`

// CreateQueue makes a queue with limits, or says ErrConflict.
func (a *API) CreateQueue(ctx context.Context, o job.QueueParams) error {
	return a.db.Tx(ctx, pool.In(o.Namespace), "queue.create", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO queue (namespace_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`, o.Namespace, o.Name)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("%w: there is a queue called %q; set its limits with PUT", ErrConflict, o.Name)
		}
		return writeLimits(ctx, tx, &o, "queue.create")
	})
}

func writeLimits(ctx context.Context, tx pgx.Tx, o *job.QueueParams, action string) error {
	l := o.Limits
	if _, err := tx.Exec(ctx, limitQueue, o.Namespace, o.Name, l.MaxRunning, l.Rate.Count, l.Rate.Seconds, l.Burst); err != nil {
		return err
	}
	return audit(ctx, tx, auditParams{o.Namespace, o.Actor, action, o.Name}, struct {
		MaxRunning int32  `json:"max_running,omitempty"`
		Rate       string `json:"rate,omitempty"`
		Burst      int32  `json:"burst,omitempty"`
	}{l.MaxRunning, l.Rate.String(), l.Burst})
}

// LimitQueue sets the limits of a queue, or says ErrNotFound. Nodes heed them at once. What runs already counts, and goes on though it may be more than the limit.
func (e *Engine) LimitQueue(ctx context.Context, o job.QueueParams) error {
	var id int32
	var was bool
	err := e.api.db.Tx(ctx, pool.In(o.Namespace), "queue.limit", func(tx pgx.Tx) (err error) {
		err = tx.QueryRow(ctx, `SELECT id, limited FROM queue WHERE namespace_id = $1 AND name = $2 FOR UPDATE`, o.Namespace, o.Name).Scan(&id, &was)
		if noRows(err) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		return writeLimits(ctx, tx, &o, "queue.limit")
	})
	if err != nil || was || !o.Limits.Limited() {
		return err
	}
	return e.adopt(ctx, id)
}

// adopt gives the live runs of a queue that has just got a limit their places. Claims that did not see the limit yet
// are waited for: each has the shared lock of its session. If this node dies before it is done, MendHolds does it.
func (e *Engine) adopt(ctx context.Context, queue int32) error {
	rows, err := e.db.Query(ctx, `SELECT id FROM session WHERE expires_at > now()`)
	if err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	for _, id := range sessions {
		if _, err := e.db.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockOf(id)); err != nil {
			return fmt.Errorf("wait for claims: %w", err)
		}
	}
	_, err = e.addHolds(ctx, queue, nil)
	return err
}

// maxAdopted is how many runs get their place in one transaction.
const maxAdopted = 500

// In the order in which runs are locked everywhere. $2: partitions; NULL: all.
const lockUnheld = `
SELECT ctid::text FROM run
WHERE queue_id = $1 AND state <> 0 AND queue_permit IS NULL AND ($2::smallint[] IS NULL OR partition = ANY ($2))
ORDER BY partition, job_id, due_at, seq LIMIT $3 FOR UPDATE`

// The rows are locked, by a statement before: their addresses hold, and are of versions that this one sees.
const addHolds = `
WITH numbered AS MATERIALIZED (SELECT x.address::tid AS address, $2::bigint + x.n - 1 AS n FROM unnest($3::text[]) WITH ORDINALITY x (address, n)), marked AS (
    UPDATE run SET queue_permit = (SELECT x.n FROM numbered x WHERE x.address = run.ctid)
    WHERE ctid = ANY (ARRAY(SELECT address FROM numbered))
    RETURNING queue_permit, partition, job_id, due_at, seq
)
INSERT INTO permit (limit_kind, limit_id, number, queue_id, partition, job_id, due_at, seq)
SELECT 1, $1::integer, queue_permit, $1::integer, partition, job_id, due_at, seq FROM marked`

// addHolds gives live runs of a limited queue that have no place one, though there may be none.
func (e *Engine) addHolds(ctx context.Context, queue int32, partitions []int16) (added int, err error) {
	for {
		n := 0
		err := e.db.Tx(ctx, "take live runs in", func(tx pgx.Tx) error {
			var first int64
			// The number behind the lock, as everywhere.
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashint8extended($1, 1))`, int64(queue)); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, `SELECT nextval('permit_number')`).Scan(&first); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, lockUnheld, queue, partitions, maxAdopted)
			if err != nil {
				return err
			}
			addresses, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, addHolds, queue, first, addresses)
			n = int(tag.RowsAffected())
			return err
		})
		added += n
		if err != nil || n < maxAdopted {
			return added, err
		}
	}
}

// A hold and its run are written together, so one statement sees both or neither. Lanes of nodes that died go with it.
const removeHolds = `
WITH forgotten AS (DELETE FROM queue_waiter WHERE reported_at < now() - interval '1 minute')
DELETE FROM permit p WHERE p.partition = ANY ($1) AND NOT EXISTS (
    SELECT FROM run r
    WHERE r.partition = p.partition AND r.job_id = p.job_id AND r.due_at = p.due_at AND r.seq = p.seq AND r.state <> 0
      AND CASE p.limit_kind WHEN 1 THEN r.queue_permit ELSE r.key_permit END = p.number)`

const unheldQueues = `
SELECT DISTINCT queue_id FROM run WHERE partition = ANY ($1) AND state <> 0 AND queue_permit IS NULL
  AND queue_id = ANY (ARRAY(SELECT id FROM queue WHERE limited))`

// MendHolds makes the holds of partitions those of the live runs again: a place that
// nobody has would be lost for ever, and a run without one would not be counted. Neither
// should happen.
func (e *Engine) MendHolds(ctx context.Context, partitions []int16) (removed, added int, err error) {
	tag, err := e.db.Exec(ctx, removeHolds, partitions)
	if err != nil {
		return 0, 0, fmt.Errorf("remove holds without a run: %w", err)
	}
	rows, err := e.db.Query(ctx, unheldQueues, partitions)
	if err != nil {
		return 0, 0, fmt.Errorf("find live runs without a hold: %w", err)
	}
	queues, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	for _, q := range queues {
		var n int
		if n, err = e.addHolds(ctx, q, partitions); err != nil {
			break
		}
		added += n
	}
	return int(tag.RowsAffected()), added, err
}
