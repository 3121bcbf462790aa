package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
)

// TestChangesOfANamespaceLockInOneOrder: the audit log and then the row, as the deletion of a secret does, so that there
// is no deadlock.
func TestChangesOfANamespaceLockInOneOrder(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	ctx := t.Context()
	limit := int64(5)
	for name, change := range map[string]func() error{
		"quotas": func() error {
			_, err := b.jobs.store.SetQuotas(ctx, "mine", access.QuotaParams{access.QuotaJobs: &limit})
			return err
		},
	} {
		tx, err := b.pool.Begin(ctx)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, `SELECT FROM namespace WHERE id = $1 FOR UPDATE`, b.namespace)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- change() }()
		const here = `pg_locks WHERE pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database()) AND `
		require.Eventually(t, func() bool {
			return b.count(here+`locktype IN ('transactionid', 'tuple') AND NOT granted`) > 0
		}, clocktest.Allow(time.Minute), time.Millisecond, name)
		locked := b.count(here + `locktype = 'advisory' AND granted`)
		require.NoError(t, tx.Rollback(ctx))
		require.NoError(t, <-done)
		require.Equal(t, 1, locked, name)
	}
}
