package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// claimWaiting starts runs as waitlists do.
func claimWaiting(
	ctx context.Context, pool *pgxpool.Pool, store *pgtest.Store, session uuid.UUID, keys []job.Key,
) ([]job.Attempt, []refusedRun, error) {
	admitted, err := admitWaiting(ctx, pool, store, session, keys)
	attempts, refused := split(keys, admitted)
	return attempts, refused, err
}

func (b *limits) waiting(keys []job.Key) ([]job.Admitted, error) {
	return admitWaiting(b.t.Context(), b.pool, b.store, b.session, keys)
}

func admitWaiting(
	ctx context.Context, pool *pgxpool.Pool, store *pgtest.Store, session uuid.UUID, keys []job.Key,
) ([]job.Admitted, error) {
	runs := make([]job.Run, len(keys))
	for i, k := range keys {
		r := &runs[i]
		r.Key = k
		err := pool.QueryRow(ctx, `
			SELECT queue_id, coalesce(concurrency_key, 0), coalesce(concurrency_max, 0), priority, run_at FROM run
			WHERE partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4`, k.Partition, k.Job, k.DueAt, k.Seq).
			Scan(&r.Queue, &r.ConcurrencyKey, &r.ConcurrencyMax, &r.Priority, &r.RunAt)
		if err != nil {
			return nil, err
		}
	}
	return store.AdmitWaiting(ctx, session, runs)
}

// TestNoRunIsLockedForALimitThatIsTaken: while another node grants permits of a limit, runs that wait for it are not
// locked. A lock is a write, and all nodes ask every few milliseconds.
func TestNoRunIsLockedForALimitThatIsTaken(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: 1})
	keys := b.due(5, nil)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashint8extended(id, 1)) FROM queue WHERE name = 'narrow'`)
	require.NoError(t, err)
	attempts, refused := b.claim(keys...)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, attempts)
	require.Len(t, refused, 5)
	require.True(t, refused[0].Busy)
	require.Zero(t, b.count(`run WHERE state = 0 AND xmax <> 0`))
	attempts, _ = b.claim(keys...)
	require.Len(t, attempts, 1)
}

// TestAFullLimitKeepsNoPolicyWaiting: the run that holds the only permit is another run of the same job. What comes due
// while it runs is skipped or replaces it, as without a limit: it does not wait until the permit is free.
func TestAFullLimitKeepsNoPolicyWaiting(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: 1})
	now := b.now()
	next := func(overlap job.Overlap) (first, second job.Key) {
		d := definition(string(overlap), schedule.Spec{Every: "1h", StartAt: now.Add(time.Hour)})
		d.Queue, d.Overlap = "narrow", overlap
		j := b.create(d)
		insert := func(hours int, state job.RunState) (k job.Key) {
			k = job.Key{Partition: j.Partition, Job: j.ID}
			require.NoError(t, b.pool.QueryRow(
				t.Context(), insertPolicyRun, j.ID, now, hours, hours, int16(state), 0, 0, false, b.session,
			).Scan(&k.DueAt))
			return k
		}
		first = insert(-2, job.Pending)
		attempts, _ := b.claim(first)
		require.Len(t, attempts, 1)
		b.exec(`UPDATE run SET claimed_at = now() - interval '2 h'`)
		return first, insert(-1, job.Pending)
	}
	_, second := next(job.OverlapSkip)
	got, err := b.waiting([]job.Key{second})
	require.NoError(t, err)
	require.True(t, got[0].Skipped)
	b.exec(`DELETE FROM permit`)
	b.exec(`DELETE FROM run`)

	first, second := next(job.OverlapReplace)
	got, err = b.waiting([]job.Key{second})
	require.NoError(t, err)
	require.True(t, got[0].Alone, "the transaction of many cannot be undone")
	attempts, refused, err := admit(t.Context(), b.store, b.session, []job.Key{second})
	require.NoError(t, err)
	require.Empty(t, refused)
	require.Len(t, attempts, 1)
	require.Zero(t, b.count(`run WHERE due_at = $1`, first.DueAt))
	b.exact()
}

// TestAWaitingRunThatMovedIsCountedWhereItIs: a waitlist does not know yet that an edit has moved a run to another queue.
func TestAWaitingRunThatMovedIsCountedWhereItIs(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: 1})
	b.limit("tight", job.QueueLimits{MaxRunning: 1})
	keys := b.due(2, nil)
	run := job.Run{Key: keys[0], RunAt: keys[0].DueAt}
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT id FROM queue WHERE name = 'narrow'`).Scan(&run.Queue))
	b.exec(`UPDATE run SET queue_id = (SELECT id FROM queue WHERE name = 'tight')`)
	admitted, err := b.store.AdmitWaiting(t.Context(), b.session, []job.Run{run})
	require.NoError(t, err)
	require.NotNil(t, admitted[0].Claimed)
	b.exact()
	run.Key = keys[1]
	admitted, err = b.store.AdmitWaiting(t.Context(), b.session, []job.Run{run})
	require.NoError(t, err)
	require.Equal(t, 1, admitted[0].Refusal.Running)
}
