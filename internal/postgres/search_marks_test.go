package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// cursorPages returns how many pages of cursors and their indexes work reads.
func (b *bulk) cursorPages(work func()) (n int64) {
	b.t.Helper()
	read := func() (n int64) {
		(&path{bulk: b}).pages() // which makes connections report theirs
		row := b.pool.QueryRow(b.t.Context(), `
SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read FROM pg_statio_user_tables
WHERE relname = 'cursor'`)
		require.NoError(b.t, row.Scan(&n))
		return n
	}
	before := read()
	work()
	return read() - before
}

// nextDue returns the earliest cursor of the partitions.
func (b *bulk) nextDue(partitions []int16) (first time.Time) {
	b.t.Helper()
	_, next, _, err := b.store.NextDue(b.t.Context(), partitions)
	require.NoError(b.t, err)
	for _, at := range next {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// movedCursors has a hundred hourly cursors in one partition, each moved some hours ahead while a snapshot is held: the
// index has a hundred dead entries for each hour, which cannot be removed.
func movedCursors(t *testing.T, hours int) (*bulk, []int16) {
	b := setupBulk(t, nil)
	b.exec(`INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed, next_due_at)
		SELECT 7, g, `+bulkNamespace+`, sha256(g::text::bytea),
		       format('{"cron":"%s * * * *","timezone":"UTC"}', extract(minute FROM at)), `+bulkMissed+`,
		       at - $1 * interval '1 h'
		FROM generate_series(1, 100) g, LATERAL (SELECT date_trunc('minute', now() + interval '30 min', 'UTC') AS at) x`, hours)
	snapshot, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = snapshot.Rollback(t.Context()) })
	_, err = snapshot.Exec(t.Context(), `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`)
	require.NoError(t, err)
	_, err = snapshot.Exec(t.Context(), `SELECT count(*) FROM cursor`)
	require.NoError(t, err)
	for range hours + 1 {
		b.exec(`UPDATE cursor SET next_due_at = next_due_at + interval '1 h'`)
	}
	return b, []int16{7}
}

// TestPlanDoesNotPassDeadCursors: after the first search, planning reads no entries of cursors that were moved.
func TestPlanDoesNotPassDeadCursors(t *testing.T) {
	t.Parallel()
	b, partitions := movedCursors(t, 200)
	all := b.cursorPages(func() { b.nextDue(partitions) })
	require.Greater(t, all, int64(1_000), "the first search is not expensive, so this test shows nothing")
	search := b.cursorPages(func() { require.True(t, b.nextDue(partitions).After(b.now())) })
	require.Less(t, search, all/10, "a search for the next due time")
	plan := b.cursorPages(func() {
		planned, err := b.store.Plan(t.Context(), job.PlanParams{Partitions: partitions, LookAhead: time.Second, Cursors: 500})
		require.NoError(t, err)
		require.Zero(t, planned.Cursors)
	})
	require.Less(t, plan, all/10, "a plan")
}

// TestACursorThatGoesBackIsPlanned: one that was set aside goes back to where it was when plan visits it, and missed more
// than one transaction visits. It is found although all others are later.
func TestACursorThatGoesBackIsPlanned(t *testing.T) {
	t.Parallel()
	b, partitions := movedCursors(t, 1)
	b.exec(`UPDATE cursor SET next_due_at = now() - interval '3 days', schedule = '{"every":"1s"}',
		broken_at = now() - interval '3 days', retry_at = now(), problem = 'test' WHERE id = 1`)
	require.True(t, b.nextDue(partitions).After(b.now().Add(-time.Minute)))
	for range 2 {
		planned, err := b.store.Plan(t.Context(), job.PlanParams{Partitions: partitions, LookAhead: time.Second, Cursors: 500})
		require.NoError(t, err)
		require.True(t, planned.More)
		require.Equal(t, 1, planned.Cursors)
		require.True(t, b.nextDue(partitions).Before(b.now().Add(-time.Hour)))
		b.exec(`DELETE FROM run`)
	}
}

// TestCursorsAreSearchedFromTheBeginningAfterAFailover: the new server may have forgotten that cursors were moved. So
// may a node that did not own the partition for a while.
func TestCursorsAreSearchedFromTheBeginningAfterAFailover(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *bulk){
		"failover": func(b *bulk) { (&jobs{t: t, pool: b.pool}).failOver(1); b.nextDue([]int16{7}) },
		"lost":     func(b *bulk) { b.nextDue([]int16{8}) },
	} {
		b, partitions := movedCursors(t, 1)
		for range 2 {
			require.True(t, b.nextDue(partitions).After(b.now()), name)
		}
		b.exec(`UPDATE cursor SET next_due_at = now() - interval '1 h' WHERE id = 1`)
		require.True(t, b.nextDue(partitions).After(b.now()), "%s: it has no mark, so this test shows nothing", name)
		change(b)
		require.True(t, b.nextDue(partitions).Before(b.now()), name)
	}
}
