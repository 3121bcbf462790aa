package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
)

// breakAll makes the schedules of cursors unreadable, and their due times the earliest.
func (b *jobs) breakAll(n int) {
	b.t.Helper()
	b.exec(`INSERT INTO cursor (partition, namespace_id, key, schedule, missed, next_due_at)
		SELECT $1, $2, sha256(g::text::bytea), '{"cron":"of a later version"}', '{"policy":"once"}',
		now() - interval '1 hour' FROM generate_series(1, $3) g`, partition, b.namespace, n)
}

// TestBrokenCursorsStepAside: more broken cursors than one transaction handles must not keep others from being planned.
func TestBrokenCursorsStepAside(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	const broken, cursors = 60, 25
	order := job.PlanParams{Partitions: []int16{partition}, LookAhead: time.Minute, Cursors: cursors}
	j := b.create(definition("neighbour", everySecond))
	b.cursorBack(j, time.Minute)
	b.breakAll(broken)

	reports, runs, calls := 0, 0, 0
	for more := true; more; calls++ {
		require.Less(t, calls, 10)
		p, err := b.store.Plan(t.Context(), order)
		require.NoError(t, err)
		reports, runs, more = reports+len(p.Broken), runs+len(p.Runs), p.More
	}
	require.Equal(t, broken, reports, "each is reported once")
	require.NotZero(t, runs, "the neighbour is planned")
	p, err := b.store.Plan(t.Context(), order)
	require.NoError(t, err)
	require.Empty(t, p.Broken, "and not again and again")
	_, next, _, err := b.store.NextDue(t.Context(), []int16{partition})
	require.NoError(t, err)
	require.True(t, next[partition].After(b.now()), "nor do they make the planner look")
	n, oldest, err := b.store.BrokenCursors(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, broken, n)
	require.Contains(t, oldest, "cron")

	// Healed, one is planned from where it was.
	b.exec(
		`UPDATE cursor SET schedule = '{"every":"1h"}', retry_at = now()
			WHERE id = (SELECT min(id) FROM cursor WHERE broken_at IS NOT NULL)`,
	)
	p, err = b.store.Plan(t.Context(), order)
	require.NoError(t, err)
	require.Equal(t, 1, p.Cursors)
	require.Empty(t, p.Broken)
	n, _, err = b.store.BrokenCursors(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, broken-1, n)
}

// TestALateCursorIsWaitedFor: a cursor that changes of its jobs keep locked is still planned.
func TestALateCursorIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	order := job.PlanParams{Partitions: []int16{partition}, LookAhead: time.Minute, Cursors: 10}
	late := b.create(definition("late", everyMinute))
	b.plan(time.Minute)
	b.cursorBack(late, 2*time.Minute)
	neighbour := b.create(definition("neighbour", b.soon(45*time.Second)))
	lock := func() pgx.Tx {
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(
			t.Context(),
			`SELECT FROM cursor c, job j
				WHERE j.id = $1 AND c.partition = j.partition AND c.id = j.cursor_id
				FOR UPDATE OF c`,
			late.ID,
		)
		require.NoError(t, err)
		return tx
	}
	// Locked for longer than the planner waits: other cursors are planned.
	tx := lock()
	begin := clock.Elapsed()
	p, err := b.store.Plan(t.Context(), order)
	require.NoError(t, err)
	require.Less(t, clock.Elapsed()-begin, clocktest.Allow(5*time.Second))
	require.Equal(t, 1, p.Cursors)
	require.NotEmpty(t, b.live(neighbour))

	// If the lock is released within that time, the call that waits plans the cursor. On a busy machine the release may
	// come too late, so the test tries more than once.
	for try := 1; ; try++ {
		planned := make(chan job.Planned, 1)
		go func() {
			p, _ := b.store.Plan(t.Context(), order)
			planned <- p
		}()
		require.Eventually(t, func() bool {
			var waiting int
			err := b.pool.QueryRow(t.Context(), `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
			return err == nil && (waiting == 1 || len(planned) == 1)
		}, time.Minute, 5*time.Millisecond, "plan waits for the lock")
		require.NoError(t, tx.Commit(t.Context()))
		if (<-planned).Cursors == 1 {
			break
		}
		require.Less(t, try, 20, "a lock that is released is waited for")
		tx = lock()
	}
}
