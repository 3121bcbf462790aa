package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
)

// prepare reads what a claim left out and stores the idempotency keys. Other claims of the queue do not wait for it. If it
// fails, the outcome of the claim is unknown to the caller, who resolves it.
func (e *Engine) prepare(ctx context.Context, enter enterFunc, claimed []*job.Attempt) error {
	if err := e.readContents(ctx, enter, slices.Clone(claimed)); err != nil {
		return err
	}
	return e.keepKeys(ctx, enter, claimed)
}

// keepKeys stores the idempotency keys that first attempts compute, before they are delivered: the process may die
// meanwhile, and the job may change. A key that cannot be computed is found when the run is handed out.
func (e *Engine) keepKeys(ctx context.Context, enter enterFunc, claimed []*job.Attempt) error {
	var batch pgx.Batch
	enter(&batch)
	stored := 0
	for _, c := range claimed {
		if c.KeyExpression == "" || c.OwnKey != "" || c.MakeKey() != nil {
			continue
		}
		batch.Queue(keepKey+` AND attempt = $6 AND session_id = $7`,
			c.Key.Partition, c.Key.Job, c.Key.DueAt, c.Key.Seq, c.OwnKey, c.Number, c.Session,
		).Exec(func(tag pgconn.CommandTag) error {
			stored += int(tag.RowsAffected())
			return nil
		})
	}
	if batch.Len() == 1 {
		return nil
	}
	want := batch.Len() - 1
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("store idempotency keys: %w", err)
	}
	if stored < want { // the next attempt stores its own key, and this one must not be delivered with another
		return errors.New("store idempotency keys: a run that was claimed has been rescued since")
	}
	return nil
}
