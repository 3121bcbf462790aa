package postgres_test

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

func count(t *testing.T) int {
	t.Helper()
	names, err := fs.Glob(postgres.Migrations(), "*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return len(names)
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	s, err := postgres.ReadSchema(t.Context(), url)
	require.NoError(t, err)
	require.Zero(t, s.Current)

	applied, err := postgres.Migrate(t.Context(), url, postgres.MigrateParams{})
	require.NoError(t, err)
	require.Equal(t, count(t), applied)
	s, err = postgres.ReadSchema(t.Context(), url)
	require.NoError(t, err)
	require.Equal(t, s.Latest, s.Current)

	applied, err = postgres.Migrate(t.Context(), url, postgres.MigrateParams{})
	require.NoError(t, err)
	require.Zero(t, applied, "nothing is left to apply")
}

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t testing.TB, direct string) string{
		"direct":    func(_ testing.TB, direct string) string { return direct },
		"pgbouncer": pgtest.ThroughPgBouncer,
	}
	for name, address := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const processes = 8
			url := address(t, pgtest.EmptyURL(t))
			applied, errs := make([]int, processes), make([]error, processes)
			var wait sync.WaitGroup
			for i := range processes {
				wait.Go(func() { applied[i], errs[i] = postgres.Migrate(t.Context(), url, postgres.MigrateParams{}) })
			}
			wait.Wait()
			require.NoError(t, errors.Join(errs...))
			sum := 0
			for _, n := range applied {
				sum += n
			}
			require.Equal(t, count(t), sum, "each migration is applied once: %v", applied)
		})
	}
}

// Down is for developers. It must undo all of Up, or the next Up fails.
func TestDownUndoesUp(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(pgtest.EmptyURL(t))
	require.NoError(t, err)
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	provider, err := goose.NewProvider(goose.DialectPostgres, db, postgres.Migrations())
	require.NoError(t, err)
	for range 2 {
		_, err = provider.Up(t.Context())
		require.NoError(t, err)
		_, err = provider.DownTo(t.Context(), 0)
		require.NoError(t, err)
	}
	var left int
	err = db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND NOT starts_with(relname, 'goose_db_version')`).Scan(&left)
	require.NoError(t, err)
	require.Zero(t, left)
}

func TestMigrateErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		url  func(t *testing.T) string
		says string
	}{
		"no URL": {
			url:  func(*testing.T) string { return "postgres://u:secret@h:port/d" },
			says: "want postgres://user@host:port/database",
		},
		"no server": {
			url:  func(*testing.T) string { return "postgres://u:secret@127.0.0.1:1/d" },
			says: "is it running, and is the URL right?",
		},
		"no right": {url: readOnly, says: "GRANT CREATE ON SCHEMA public"},
		"table in the way": {
			url: func(t *testing.T) string {
				url := pgtest.EmptyURL(t)
				exec(t, url, `CREATE TABLE namespace ()`)
				return url
			},
			says: "apply migration 0001_schema.sql (0 before it were applied",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := postgres.Migrate(t.Context(), test.url(t), postgres.MigrateParams{})
			require.ErrorContains(t, err, test.says)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// readOnly returns the URL of a database in which the user may not create tables.
func readOnly(t *testing.T) string {
	t.Helper()
	address := pgtest.EmptyURL(t)
	// A role that PostgreSQL has: roles belong to the whole server, and a test must not leave one behind.
	exec(t, address, `GRANT USAGE ON SCHEMA public TO pg_monitor`)
	u, err := url.Parse(address)
	require.NoError(t, err)
	query := u.Query()
	query.Set("role", "pg_monitor")
	u.RawQuery = query.Encode()
	return u.String()
}

func exec(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
	require.NoError(t, conn.Close(context.Background()))
}

func TestNamespaceName(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("x", n) }
	tests := map[string]bool{
		"a": true, "0": true, "team-a": true, "a--b": true, long(63): true,
		"": false, "-a": false, "a-": false, "A": false, "a_b": false, "a.b": false, "ä": false, "a\n": false,
		long(64): false,
	}
	pool := pgtest.New(t)
	for name, valid := range tests {
		_, err := pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES (gen_random_uuid(), $1)`, name)
		if valid {
			require.NoError(t, err, "%q", name)
			continue
		}
		refused, ok := errors.AsType[*pgconn.PgError](err)
		require.True(t, ok, "%q: %v", name, err)
		require.Equal(t, "namespace_name_form", refused.ConstraintName, "%q", name)
	}
	_, err := pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES (gen_random_uuid(), 'a')`)
	taken, ok := errors.AsType[*pgconn.PgError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "namespace_name_key", taken.ConstraintName)
}

// TestASchemaFromBeforeTheFirstVersionIsRefused: its migrations had higher numbers, so it looks newer than it is.
func TestASchemaFromBeforeTheFirstVersionIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	exec(t, url, `
CREATE TABLE belfry_migration (version_id bigint); INSERT INTO belfry_migration VALUES (71);
CREATE FUNCTION belfry_create_output(ahead integer) RETURNS void LANGUAGE sql AS ''`)
	_, err := postgres.Migrate(t.Context(), url, postgres.MigrateParams{})
	require.ErrorContains(t, err, "before 0.1.0, and cannot be migrated; create a new one")
	_, err = postgres.ReadSchema(t.Context(), url)
	require.ErrorContains(t, err, "before 0.1.0")
}

// TestMigrateBesideABackup: while a long transaction has read the tables, a migration that must change them lets nodes
// work, and is applied when the transaction has ended.
func TestMigrateBesideABackup(t *testing.T) {
	t.Parallel()
	url, ctx := pgtest.EmptyURL(t), t.Context()
	_, err := postgres.Migrate(ctx, url, postgres.MigrateParams{})
	require.NoError(t, err)
	pool, err := pgxpool.New(ctx, url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	files := program(t)
	files["1000_later.sql"] = &fstest.MapFile{
		Data: []byte("-- +goose Up\n\nSET LOCAL lock_timeout = '500ms';\n\nALTER TABLE session ADD later integer;\n"),
	}

	backup, err := pool.Begin(ctx)
	require.NoError(t, err)
	_, err = backup.Exec(ctx, `SELECT FROM session`)
	require.NoError(t, err)
	waits, renewed := make(chan error, 100), make(chan struct{})
	migrated := make(chan error, 1)
	go func() {
		applied, err := postgres.MigrateFiles(ctx, url, files, postgres.MigrateParams{
			Waiting: func(err error) { waits <- err; <-renewed },
		})
		assert.Equal(t, 1, applied)
		migrated <- err
	}()
	select {
	case err := <-waits:
		require.ErrorContains(t, err, "another transaction uses the table")
	case err := <-migrated:
		require.NoError(t, err)
		require.Fail(t, "it did not wait")
	}
	_, err = pool.Exec(ctx, `UPDATE session SET expires_at = now()`) // a renewal, as nodes do each second
	require.NoError(t, err)
	require.NoError(t, backup.Rollback(ctx))
	close(renewed)
	require.NoError(t, <-migrated)
}

// TestMigrationsWaitBriefly: each migration of a cluster that may be running limits how long it waits for a lock.
func TestMigrationsWaitBriefly(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(postgres.Migrations(), "*.sql")
	require.NoError(t, err)
	for _, name := range names[2:] { // no cluster runs before the first two
		text, err := fs.ReadFile(postgres.Migrations(), name)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "-- +goose Up\n\nSET LOCAL lock_timeout = '500ms';\n"), name)
		for _, index := range createIndex.FindAllStringSubmatch(string(text), -1) {
			if slices.Contains([]string{"dead_letter", "operation", "queue", "run", "session"}, index[1]) {
				// Small: only runs that fail permanently wait for dead_letter, and renewals for session. An operation is a
				// request of a user. In run there is a minute of planned runs, whose index takes less than a second.
				continue
			}
			require.Contains(
				t, string(text), "CREATE TABLE "+index[1]+" (", "%s: an index on a full table locks it while it is built",
				name,
			)
		}
	}
}

var createIndex = regexp.MustCompile(`CREATE (?:UNIQUE )?INDEX \w+ ON (\w+)`)
