package start

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// keepKey decides the idempotency key of a run, once.
const keepKey = `
UPDATE run SET idempotency_key = $5 WHERE ` + store.ByKey + ` AND idempotency_key IS NULL AND attempt = $6 AND session_id = $7`

// KeepKeys stores the idempotency keys of claimed attempts. An error means that none of them may be delivered: the
// caller resolves their claims. One attempt may have been rescued since, and the next attempt decides its own key.
func (s *Store) KeepKeys(ctx context.Context, attempts []*job.Attempt) error {
	return s.keepKeys(ctx, store.AsEngine, attempts)
}

// PullKeepKeys is KeepKeys for attempts that were claimed for workers of a queue.
func (s *Store) PullKeepKeys(ctx context.Context, namespace uuid.UUID, queue int32, attempts []*job.Attempt) error {
	return s.keepKeys(ctx, store.AsWorker(namespace, queue), attempts)
}

func (s *Store) keepKeys(ctx context.Context, enter store.Entrance, attempts []*job.Attempt) error {
	var batch pgx.Batch // one round trip, one transaction
	enter(&batch)
	stored := 0
	for _, a := range attempts {
		batch.Queue(keepKey, a.Key.Partition, a.Key.Job, a.Key.DueAt, a.Key.Seq, a.OwnKey, a.Number, a.Session).
			Exec(func(tag pgconn.CommandTag) error {
				stored += int(tag.RowsAffected())
				return nil
			})
	}
	if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("store idempotency keys: %w", err)
	}
	if stored < len(attempts) {
		return errors.New("store idempotency keys: a run that was claimed has been rescued since")
	}
	return nil
}
