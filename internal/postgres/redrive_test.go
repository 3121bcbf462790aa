package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestARedrivenRunIsTriedAnew: as often as a new one, with attempts that go on, and it stays one entry of the ledger.
func TestARedrivenRunIsTriedAnew(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.shared(10)
	b.pending(1)
	key := b.keys(1)[0]
	var namespace [16]byte
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT namespace_id FROM job LIMIT 1`).Scan(&namespace))
	// fail fails attempts until none is left, and returns the number of the last.
	fail := func() (attempt int16, tries int) {
		for tries = 1; ; tries++ {
			done := b.claim([]job.Key{key})
			done[0].Outcome = job.Outcome{Kind: job.Failed, Retryable: true, Message: "no"}
			retries, fenced, err := b.store.CompleteDecided(t.Context(), done)
			require.NoError(t, err)
			require.Zero(t, fenced)
			if len(retries) == 0 {
				return done[0].Attempt, tries
			}
		}
	}
	ledger := func() (live, ended, letters int) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT (SELECT count(*) FROM run WHERE job_id = $1), (SELECT count(*) FROM run_history WHERE job_id = $1), (SELECT count(*) FROM dead_letter WHERE job_id = $1)`, key.Job).Scan(&live, &ended, &letters))
		return live, ended, letters
	}
	last, tries := fail()
	require.EqualValues(t, 3, last)
	require.Equal(t, 3, tries)

	_, err := b.store.RedriveRun(t.Context(), key.Job, key)
	require.ErrorIs(t, err, postgres.ErrNotFound, "of another namespace")
	run, err := b.store.RedriveRun(t.Context(), namespace, key)
	require.NoError(t, err)
	require.EqualValues(t, 3, run.Attempt)
	live, ended, letters := ledger()
	require.Equal(t, []int{1, 0, 0}, []int{live, ended, letters}, "it is live, and nothing else")
	_, err = b.store.RedriveRun(t.Context(), namespace, key)
	require.ErrorIs(t, err, postgres.ErrNotFound, "twice")

	last, tries = fail()
	require.EqualValues(t, 6, last, "the fence goes on")
	require.Equal(t, 3, tries, "and there are three tries again")
	live, ended, letters = ledger()
	require.Equal(t, []int{0, 1, 1}, []int{live, ended, letters})
	var kept int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT jsonb_array_length(attempts) FROM run_history WHERE job_id = $1`, key.Job).Scan(&kept))
	require.Equal(t, 5, kept, "all attempts but the last, before the redrive and after")

	// Woken, so that its owner finds it.
	_, err = b.store.RedriveRun(t.Context(), namespace, key)
	require.NoError(t, err)
	woken, err := b.store.Woken(t.Context(), []int16{key.Partition}, b.now().Add(-time.Minute), b.now())
	require.NoError(t, err)
	require.Len(t, woken, 1)
}
