package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// waiting runs a change while tx has a lock that the change needs. Once the change waits, it calls meanwhile in tx,
// commits, and returns the change.
func (b *jobs) waiting(tx pgx.Tx, change func(context.Context) (job.Change, error), meanwhile func()) job.Change {
	b.t.Helper()
	type result struct {
		job.Change
		error
	}
	done := make(chan result, 1)
	go func() {
		c, err := change(b.t.Context())
		done <- result{c, err}
	}()
	require.Eventually(b.t, func() bool {
		var n int
		err := b.pool.QueryRow(b.t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n == 1
	}, time.Minute, 5*time.Millisecond)
	meanwhile()
	require.NoError(b.t, tx.Commit(b.t.Context()))
	r := <-done
	require.NoError(b.t, r.error)
	return r.Change
}

func (b *jobs) begin() pgx.Tx {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

const lockCursorOf = `
SELECT c.id FROM cursor c, job j
WHERE j.id = $1 AND c.partition = j.partition AND c.id = j.cursor_id
FOR UPDATE OF c`

// TestAChangeReadsTheClockAfterItHasTheCursor: what other transactions did meanwhile is earlier than the change.
func TestAChangeReadsTheClockAfterItHasTheCursor(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	for name, change := range map[string]func(context.Context, job.Job) (job.Change, error){
		"create": func(ctx context.Context, _ job.Job) (job.Change, error) {
			j, err := b.store.CreateJob(ctx, job.CreateParams{
				Namespace: b.namespace, ID: idIn(partition), Definition: definition("new", everySecond),
			})
			return job.Change{Now: j.CreatedAt}, err
		},
		"update": func(ctx context.Context, j job.Job) (job.Change, error) {
			j, err := b.store.UpdateJob(ctx, job.UpdateParams{
				Namespace: b.namespace, ID: j.ID, Definition: definition("changed", everyMinute),
			})
			return job.Change{Now: j.UpdatedAt}, err
		},
		"pause": func(ctx context.Context, j job.Job) (job.Change, error) {
			return b.store.PauseJob(ctx, job.ChangeParams{Namespace: b.namespace, ID: j.ID}, "")
		},
		"delete": func(ctx context.Context, j job.Job) (job.Change, error) {
			return b.store.DeleteJob(ctx, job.ChangeParams{Namespace: b.namespace, ID: j.ID})
		},
	} {
		j := b.create(definition(name, everySecond))
		tx := b.begin()
		_, err := tx.Exec(t.Context(), lockCursorOf, j.ID)
		require.NoError(t, err)
		var released time.Time
		c := b.waiting(tx, func(ctx context.Context) (job.Change, error) { return change(ctx, j) }, func() {
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&released))
		})
		require.True(t, c.Now.After(released), name)
	}
}

// TestAJobThatMovesWhileItsCursorIsWaitedFor is changed with its new cursor.
func TestAJobThatMovesWhileItsCursorIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j, other := b.create(definition("a", everySecond)), b.create(definition("other", everyMinute))
	b.cursorBack(other, 5*time.Minute)
	tx := b.begin()
	_, err := tx.Exec(t.Context(), lockCursorOf, j.ID)
	require.NoError(t, err)
	pause := func(ctx context.Context) (job.Change, error) {
		return b.store.PauseJob(ctx, job.ChangeParams{Namespace: b.namespace, ID: j.ID}, "")
	}
	b.waiting(tx, pause, func() {
		_, err := tx.Exec(t.Context(), `
			UPDATE job SET plan_from = plan_from - interval '1 h',
			               cursor_id = (SELECT cursor_id FROM job WHERE id = $2)
			WHERE id = $1`, j.ID, other.ID)
		require.NoError(t, err)
	})
	var planFrom, next time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT j.plan_from, c.next_due_at FROM job j, cursor c
WHERE j.id = $1 AND c.partition = j.partition AND c.id = j.cursor_id`, j.ID).Scan(&planFrom, &next))
	require.Equal(t, next, planFrom, "the pause begins where that cursor is")
	require.Equal(t, job.Paused, b.get(j).State)
}
