package start

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

var (
	claimRuns   = statement("claim")
	resolveLock = statement("resolve_lock")
	resolveRuns = statement("resolve")
)

// Claim leases runs to a session: running, attempt + 1. It commits before it
// returns, so before any side effect. A run that it does not return is not due,
// belongs to another owner, needs a decision or a permit (Admit).
//
// No two keys may belong to the same job: one statement does not see its own
// updates, so it would start both runs of a job that allows one.
func (s *Store) Claim(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Attempt, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	k := store.SplitKeys(keys)
	var out []job.Attempt
	// One round trip and, without BEGIN, one transaction. The lock delays a takeover of this session's partitions
	// until the claim has ended, so two owners cannot start two runs of a job that allows one.
	var batch pgx.Batch
	batch.Queue(`SELECT pg_advisory_xact_lock_shared($1), `+string(store.KeyLookups+`, `+store.OnePlan), store.SessionLock(session))
	batch.Queue(claimRuns, k.Partition, k.Job, k.DueAt, k.Seq, session, lead).Query(collectAttempts(&out))
	if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("claim %d runs: %w", len(keys), err)
	}
	if err := s.ReadContents(ctx, store.AsEngine, pointersTo(out)); err != nil {
		return nil, fmt.Errorf("claim %d runs: %w", len(keys), err)
	}
	return out, nil
}

// ResolveClaim returns those of the runs that are leased to a session: what a
// claim did whose reply was lost.
func (s *Store) ResolveClaim(ctx context.Context, session uuid.UUID, keys []job.Key) (out []job.Attempt, err error) {
	keys = slices.SortedFunc(slices.Values(keys), store.CompareKeys)
	k := store.SplitKeys(keys)
	var batch pgx.Batch // one round trip, one transaction
	// The lock is exclusive: it waits for claims of this session that still run in the server after their client
	// gave up.
	batch.Queue(`SELECT pg_advisory_xact_lock($1), `+string(store.KeyLookups), store.SessionLock(session))
	batch.Queue(resolveLock, k.Partition, k.Job, k.DueAt, k.Seq, session)
	batch.Queue(resolveRuns, k.Partition, k.Job, k.DueAt, k.Seq, session).Query(collectAttempts(&out))
	if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("resolve %d claims: %w", len(keys), err)
	}
	if err := s.ReadContents(ctx, store.AsEngine, pointersTo(out)); err != nil {
		return nil, fmt.Errorf("resolve %d claims: %w", len(keys), err)
	}
	return out, nil
}

// collectAttempts reads the columns that claim.sql, start.sql and resolve.sql return.
func collectAttempts(out *[]job.Attempt) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		*out = nil
		return forEachClaimed(rows, func(c job.Claimed) { *out = append(*out, c.Attempt) })
	}
}

func forEachClaimed(rows pgx.Rows, each func(job.Claimed)) error {
	var c job.Claimed
	var timeout int64
	_, err := pgx.ForEachRow(rows, []any{
		&c.Key.Partition, store.Raw(&c.Key.Job), &c.Key.DueAt, &c.Key.Seq, &c.Number, &c.Version, &c.Origin, &c.RunAt,
		store.Raw(&c.Session), &c.ClaimedAt, &c.Handler, store.Raw(&c.Namespace), &c.JobName, &timeout, &c.Kind, &c.Config,
		&c.Payload, &c.KeyExpression, &c.About, &c.Trace, &c.OwnKey, &c.Queue,
	}, func() error {
		c.Timeout = time.Duration(timeout) * time.Millisecond
		each(c)
		return nil
	})
	return err
}
