package postgres_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestCountingStorageLocksJobsFirst: the migration locks tables in the order of transactions that create jobs. While it
// waits for one of them, that one need not wait for the migration.
func TestCountingStorageLocksJobsFirst(t *testing.T) {
	t.Parallel()
	url, pool := migratedTo(t, 47)
	ctx := t.Context()

	create, err := pool.Begin(ctx)
	require.NoError(t, err)
	_, err = create.Exec(ctx, `LOCK TABLE job IN ROW EXCLUSIVE MODE`) // as an insert does
	require.NoError(t, err)
	migrated := make(chan error, 1)
	go func() {
		_, err := postgres.Migrate(ctx, url, postgres.MigrateParams{All: true})
		migrated <- err
	}()
	var waits, has int
	require.Eventually(t, func() bool {
		assert.NoError(t, pool.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE relation = 'job'::regclass AND NOT granted),
       count(*) FILTER (WHERE relation IN ('namespace'::regclass, 'namespace_usage'::regclass)
                          AND mode = 'AccessExclusiveLock')
FROM pg_locks WHERE pid <> pg_backend_pid()`).Scan(&waits, &has))
		return waits > 0
	}, clocktest.Allow(time.Minute), time.Millisecond)
	require.NoError(t, create.Rollback(ctx))
	require.Zero(t, has)
	require.NoError(t, <-migrated)
}

// TestMigrateRetriesADeadlock: PostgreSQL ends one of the transactions of a deadlock, and it may choose the migration.
func TestMigrateRetriesADeadlock(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `CREATE SEQUENCE try`)
	require.NoError(t, err)
	var waited error
	files := fstest.MapFS{"0001_deadlock.sql": {Data: []byte(`-- +goose Up
-- +goose StatementBegin
DO $$ BEGIN
    IF nextval('try') = 1 THEN RAISE 'ended' USING ERRCODE = 'deadlock_detected'; END IF;
END $$;
-- +goose StatementEnd
`)}}
	applied, err := postgres.MigrateFiles(t.Context(), url, files, postgres.MigrateParams{
		Waiting: func(err error) { waited = err },
	})
	require.NoError(t, err)
	require.Equal(t, 1, applied)
	require.ErrorContains(t, waited, "another transaction uses the table")
}
