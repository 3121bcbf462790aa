package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// setupMissed creates 2,000 jobs with 9 missed runs each, as after an outage of all nodes.
func setupMissed(t *testing.T) *bulk {
	t.Helper()
	b := setupBulk(t, nil)
	b.shared(2000)
	b.pending(9)
	b.exec(`UPDATE run SET due_at = due_at - interval '20 min', run_at = run_at - interval '20 min'`)
	b.exec(`UPDATE partition SET missed_from = now() - interval '1 h', missed_until = now() - interval '10 s'`)
	return b
}

// catchUp calls CatchUp as the owner does: first for all partitions, then for those that are left.
func (b *bulk) catchUp(each func(job.CatchUpResult)) (calls int) {
	b.t.Helper()
	in := job.CatchUpParams{Session: b.session, LookAhead: time.Minute, Partitions: allPartitions()}
	for len(in.Partitions) > 0 {
		r, err := b.store.CatchUp(b.t.Context(), in)
		require.NoError(b.t, err)
		each(r)
		calls++
		require.Less(b.t, calls, 100, "it makes no progress")
		require.Equal(b.t, r.Left, b.open(), "the others are done")
		in.Partitions = r.Left
	}
	return calls
}

// open lists the partitions that have missed runs to decide.
func (b *bulk) open() (out []int16) {
	b.t.Helper()
	const list = `SELECT ARRAY(SELECT id FROM partition WHERE missed_from IS NOT NULL ORDER BY id)`
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), list).Scan(&out))
	return out
}

// TestCatchUpIsBounded: more runs than one transaction takes are decided by several. Each finishes the partitions that
// it has decided, so that they are planned and their runs start while the others are still to be decided.
func TestCatchUpIsBounded(t *testing.T) {
	t.Parallel()
	b := setupMissed(t)
	var decided int64
	left := job.Partitions
	calls := b.catchUp(func(r job.CatchUpResult) {
		require.LessOrEqual(t, r.Runs+r.Skipped, int64(10_000))
		decided += r.Skipped + r.Runs
		require.Less(t, len(r.Left), left)
		left = len(r.Left)
	})
	require.EqualValues(t, 18_000, decided)
	require.Equal(t, 2, calls)
}

// TestMissedRunsOfUnreadableCursorsAreLate: no policy applies to them, so they run, and do not keep their
// partition or others from being planned, however many they are.
func TestMissedRunsOfUnreadableCursorsAreLate(t *testing.T) {
	t.Parallel()
	b := setupMissed(t)
	b.exec(`UPDATE cursor SET schedule = '{"a newer version":"knows this"}' WHERE partition > 0`)
	b.exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
		queue_id, needs_sweep)
		SELECT j.partition, 0, 1, j.id, due, due, 0, 0, 0, 0, 1, 1, false
		FROM (SELECT * FROM job WHERE partition = 1 ORDER BY id LIMIT 1) j, LATERAL (
		    SELECT now() - interval '30 min' + n * interval '1 ms' AS due FROM generate_series(1, 10000) n) d`)
	var decided int64
	b.catchUp(func(r job.CatchUpResult) { decided += r.Skipped + r.Runs })
	require.EqualValues(t, 28_000, decided)
	var moved int
	const count = `SELECT count(*) FROM run WHERE partition > 0 AND run_at <> due_at`
	require.NoError(t, b.pool.QueryRow(t.Context(), count).Scan(&moved))
	require.Zero(t, moved, "they start at once")
	b.claim(b.keys(1500))
}
