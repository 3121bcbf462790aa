package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestTheSessionOfAnExport is no worker, is renewed only while it lives, and is deleted by nodes if its command died.
func TestTheSessionOfAnExport(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store := pgtest.NewStore(pool)
	days := store.DB.Archive()
	id := uuid.New()
	require.NoError(t, days.Begin(t.Context(), id, "belfry archive run", time.Minute))
	require.NoError(t, days.Extend(t.Context(), id, time.Minute))
	var all []int16
	for p := range int16(job.Partitions) {
		all = append(all, p)
	}
	d, err := store.Depth(t.Context(), all, nil)
	require.NoError(t, err)
	require.Empty(t, d.WorkerSlots)
	require.Zero(t, d.Sessions)

	for _, sql := range []string{
		`UPDATE session SET expires_at = now() - interval '1 h', renewed_at = now() - interval '61 min'`,
		`UPDATE cluster SET trusted_at = now(), alive = alive + interval '1 h'`, // nodes are there
	} {
		_, err = pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.ErrorIs(t, days.Extend(t.Context(), id, time.Minute), job.ErrSessionExpired)
	_, _, err = store.RescueWorkers(t.Context(), 10)
	require.NoError(t, err)
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM session`).Scan(&left))
	require.Zero(t, left)
}
