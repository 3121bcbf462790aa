package postgres_test

import (
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

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
