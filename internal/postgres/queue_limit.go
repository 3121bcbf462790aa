package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

const limitQueue = `
UPDATE queue
SET max_running = nullif($3, 0), rate = nullif($4, 0), rate_seconds = nullif($5, 0), burst = nullif($6, 0)
WHERE namespace_id = $1 AND name = $2`

// CreateQueue creates a queue with limits. ErrConflict: there is one of this name.
func (a *API) CreateQueue(ctx context.Context, o job.QueueParams) error {
	return a.db.Tx(ctx, store.In(o.Namespace), "queue.create", func(tx pgx.Tx) error {
		insert := `INSERT INTO queue (namespace_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`
		tag, err := tx.Exec(ctx, insert, o.Namespace, o.Name)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("%w: a queue named %q already exists; set its limits with PUT", job.ErrConflict, o.Name)
		}
		if err := a.writeLimits(ctx, tx, &o, "queue.create"); err != nil {
			return err
		}
		return additions{access.CapQueues: 1}.check(ctx, tx, o.Namespace)
	})
}

func (a *API) writeLimits(ctx context.Context, tx pgx.Tx, o *job.QueueParams, action string) error {
	l := o.Limits
	_, err := tx.Exec(ctx, limitQueue, o.Namespace, o.Name, l.MaxRunning, l.Rate.Count, l.Rate.Seconds, l.Burst)
	if err != nil {
		return err
	}
	return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, action, o.Name}, struct {
		MaxRunning int32  `json:"max_running,omitempty"`
		Rate       string `json:"rate,omitempty"`
		Burst      int32  `json:"burst,omitempty"`
	}{l.MaxRunning, l.Rate.String(), l.Burst})
}

// LimitQueue sets the limits of a queue, or returns ErrNotFound. Nodes obey them
// immediately. Live runs count, and go on even if they are more than the limit.
// It belongs to the engine's side because a new limit counts live runs.
func (e *Engine) LimitQueue(ctx context.Context, o job.QueueParams) error {
	var id int32
	var was bool
	err := e.api.db.Tx(ctx, store.In(o.Namespace), "queue.limit", func(tx pgx.Tx) (err error) {
		// Not "limited": of a queue that only a quota of runs limits, runs that started before the quota have no permit.
		lock := `SELECT id, max_running IS NOT NULL OR rate IS NOT NULL FROM queue
WHERE namespace_id = $1 AND name = $2 FOR UPDATE`
		err = tx.QueryRow(ctx, lock, o.Namespace, o.Name).Scan(&id, &was)
		if store.NoRows(err) {
			return job.ErrNotFound
		}
		if err != nil {
			return err
		}
		return e.api.writeLimits(ctx, tx, &o, "queue.limit")
	})
	if err != nil || was || !o.Limits.Limited() {
		return err
	}
	return e.permitLive(ctx, id)
}
