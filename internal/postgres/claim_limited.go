package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

var claimLimited = statement("claim_limited")

// ClaimLimited is Claim for runs under limits: it starts those that are due, need
// no decision and get their permits. For those that do not get one it returns
// why. The others are gone, belong to another owner, or need a decision.
func (e *Engine) ClaimLimited(
	ctx context.Context, session uuid.UUID, keys []job.Key,
) (attempts []job.Attempt, refused []job.Refused, err error) {
	err = e.db.Tx(ctx, "claim under limits", func(tx pgx.Tx) error {
		attempts, refused = nil, nil
		runs, addresses, err := lockLimited(ctx, tx, session, keys)
		if err != nil || len(runs) == 0 {
			return err
		}
		permits, err := e.grantPermits(ctx, tx, session, runs)
		if err != nil {
			return err
		}
		var s start
		for i := range runs {
			if !permits[i].granted() {
				refused = append(refused, job.Refused{Key: runs[i].key, Refusal: permits[i].Refusal})
				continue
			}
			s.add(addresses[i], session, &runs[i], &permits[i])
		}
		started, err := s.run(ctx, tx)
		for i := range started {
			attempts = append(attempts, started[i].Attempt)
		}
		return err
	})
	if err == nil {
		err = e.readContents(ctx, store.AsEngine, pointersTo(attempts))
	}
	if err != nil {
		return nil, nil, err
	}
	return attempts, refused, nil
}

// lockLimited locks the runs that may start, if they get their permits.
func lockLimited(
	ctx context.Context, tx pgx.Tx, session uuid.UUID, keys []job.Key,
) (runs []permitCandidate, addresses []string, err error) {
	k := store.SplitKeys(keys)
	var batch pgx.Batch
	batch.Queue(`SELECT pg_advisory_xact_lock_shared($1), `+string(store.KeyLookups), store.SessionLock(session))
	batch.Queue(claimLimited, k.Partition, k.Job, k.DueAt, k.Seq, session).Query(func(rows pgx.Rows) error {
		var c permitCandidate
		var address string
		_, err := pgx.ForEachRow(rows, []any{
			&address, &c.key.Partition, store.Raw(&c.key.Job), &c.key.DueAt, &c.key.Seq, &c.Priority, &c.RunAt, &c.Queue,
			&c.Key, &c.KeyMax,
		}, func() error {
			runs, addresses = append(runs, c), append(addresses, address)
			return nil
		})
		return err
	})
	return runs, addresses, tx.SendBatch(ctx, &batch).Close()
}
