package local_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

var secretLine = regexp.MustCompile(`(?m)^bfk_\w+$`)

func TestMigratePrintsTheFirstKeyOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	role := pgtest.Role(t, url, "LOGIN")
	out, err := run(t, "migrate", "--database-url", url, "--no-key", "--server-role", "nobody_at_all")
	require.ErrorContains(t, err, "CREATE ROLE nobody_at_all LOGIN PASSWORD '…', then run: belfry migrate --server-role nobody_at_all")
	require.Contains(t, out, "the schema is up to date")
	require.NotRegexp(t, secretLine, out)

	out, err = run(t, "migrate", "--database-url", url, "--server-role", role)
	require.NoError(t, err)
	require.Contains(t, out, "nodes can log in as "+role)
	_, err = access.KeyHash(secretLine.FindString(out))
	require.NoError(t, err, "%s", out)
	out, err = run(t, "migrate", "--database-url", url, "--server-role", role)
	require.NoError(t, err)
	require.NotRegexp(t, secretLine, out)
	out, err = run(t, "migrate", "--contract", "--database-url", url, "--server-role", role)
	require.NoError(t, err)
	known, err := postgres.KnownSchema()
	require.NoError(t, err)
	require.Contains(t, out, fmt.Sprintf("the schema is up to date, at version %d\n", known.Latest))
}

// TestMigrateClosesOnlyForWhomItKnows: a migration closes a new database, and that of a login that the operator named. It
// changes nothing else: the default name may be the login of another cluster, and other programs may use the database.
func TestMigrateClosesOnlyForWhomItKnows(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := pgtest.EmptyURL(t)
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(ctx))) })
	database := `"` + conn.Config().Database + `"`
	exec := func(sql string) {
		_, err := conn.Exec(ctx, strings.ReplaceAll(sql, "{db}", database))
		require.NoError(t, err, sql)
	}
	// It belongs to the whole PostgreSQL server, and is never dropped.
	exec(`DO $$ BEGIN CREATE ROLE belfry_server LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`)
	migrate := func(args ...string) string {
		out, err := run(t, append([]string{"migrate", "--no-key", "--database-url", url}, args...)...)
		require.NoError(t, err)
		return out
	}
	enters := func(role string) bool {
		c, err := pgx.Connect(ctx, pgtest.As(t, url, role))
		if err == nil {
			require.NoError(t, c.Close(ctx))
			return true
		}
		require.ErrorContains(t, err, "permission denied for database")
		return false
	}
	program := pgtest.Role(t, url, "LOGIN")
	revoked := "revoked CONNECT and TEMPORARY on database " + database +
		" from PUBLIC; other programs that use it need: GRANT CONNECT ON"

	out := migrate()
	require.Contains(t, out, revoked, "the database is new")
	require.Contains(t, out, "nodes can log in as belfry_server")
	require.True(t, enters("belfry_server"))
	require.False(t, enters(program))

	// This cluster's nodes log in as another role, and belfry_server is the login of another cluster.
	prod := pgtest.Role(t, url, "LOGIN IN ROLE belfry_api, belfry_engine")
	exec(`REVOKE CONNECT ON DATABASE {db} FROM belfry_server; GRANT CONNECT ON DATABASE {db} TO PUBLIC`)
	out = migrate()
	require.NotContains(t, out, "revoked")
	require.Contains(t, out, "warning: everyone may connect to the database")
	require.Contains(t, out, "belfry migrate --server-role LOGIN; or as the owner of the database run: GRANT CONNECT")
	require.NotContains(t, out, "TO \"belfry_server\"", "that would let the other cluster in")
	require.True(t, enters(prod))
	require.True(t, enters(program), "it shares the database")

	out = migrate("--server-role", prod)
	require.Contains(t, out, revoked)
	require.Contains(t, out, "nodes can log in as "+prod)
	require.True(t, enters(prod))
	require.False(t, enters("belfry_server"))
	require.False(t, enters(program))

	out = migrate()
	require.Contains(t, out, "warning: belfry_server may not connect to the database")
	require.False(t, enters("belfry_server"))
	require.True(t, enters(prod))

	// A grant to everyone by the operator stays.
	exec(`GRANT CONNECT ON DATABASE {db} TO PUBLIC`)
	require.Contains(t, migrate(), "warning: everyone may connect to the database")
	require.True(t, enters(program))
}

func TestNamespaceCommands(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	out, err := run(t, "namespace", "create", "team-a", "--database-url", url)
	require.NoError(t, err)
	require.Regexp(t, secretLine, out)
	_, err = run(t, "namespace", "create", "team-a", "--database-url", url)
	require.ErrorContains(t, err, "a namespace named team-a already exists")
	_, err = run(t, "namespace", "create", "Team A", "--database-url", url)
	require.ErrorContains(t, err, "use 1 to 63 of a-z")
	out, err = run(t, "namespace", "list", "--database-url", url)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^NAME +CREATED UTC\ndefault +\S+ \S+\nteam-a +\S+ \S+$`, strings.TrimSpace(out))

	quota := func(args ...string) (string, error) {
		return run(t, append([]string{"namespace", "quota", "--database-url", url}, args...)...)
	}
	out, err = quota("team-a", "--jobs", "100", "--runs-per-minute", "60")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^QUOTA +USED +LIMIT\njobs +0 +100\nruns_per_minute +0 +60$`, out)
	out, err = quota("team-a", "--runs-per-minute", "none", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"jobs"`)
	require.Contains(t, out, `"limit": 100`)
	require.NotContains(t, out, `"limit": 60`)
	_, err = quota("team-a", "--jobs", "many")
	require.ErrorContains(t, err, `--jobs "many": use a number, or none`)
	_, err = quota("team-a", "--jobs", "-1")
	require.ErrorContains(t, err, "jobs: -1 is out of range")
	_, err = quota("team-b")
	require.ErrorContains(t, err, `there is no namespace "team-b"`)

	out, err = run(t, "namespace", "key", "team-a", "--role", "viewer", "--database-url", url)
	require.NoError(t, err)
	require.Contains(t, out, "role viewer")
	require.Regexp(t, secretLine, out)
	_, err = run(t, "namespace", "key", "team-b", "--database-url", url)
	require.ErrorContains(t, err, `there is no namespace "team-b"; belfry namespace list shows them`)
	_, err = run(t, "namespace", "key", "team-a", "--role", "king", "--database-url", url)
	require.ErrorContains(t, err, "role")
}

// TestKeysOfTheOwnerExpire: whoever prints a key where others may read it can bound how long it works.
func TestKeysOfTheOwnerExpire(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	for _, c := range []struct {
		args       []string
		says, life string
	}{
		{[]string{"migrate", "--key-expires-in", "24h"}, "an admin's for 24h;", "1 day"},
		{[]string{"namespace", "create", "team-a", "--key-expires-in", "7d"}, "an admin's for 7d;", "7 days"},
		{[]string{"namespace", "create", "team-b"}, "an admin's;", "never"},
		{[]string{"namespace", "key", "team-a", "--expires-in", "90m"}, "role admin for 90m;", "01:30:00"},
		{[]string{"namespace", "key", "team-a"}, "role admin;", "never"},
	} {
		out, err := run(t, append(c.args, "--database-url", url)...)
		require.NoError(t, err)
		require.Contains(t, out, c.says)
		hash, err := access.KeyHash(secretLine.FindString(out))
		require.NoError(t, err, "%s", out)
		var life string
		require.NoError(t, conn.QueryRow(t.Context(),
			`SELECT coalesce((expires_at - created_at)::text, 'never') FROM api_key WHERE hash = $1`, hash[:]).Scan(&life))
		require.Equal(t, c.life, life, "%s", c.args)
	}
	for _, life := range []string{"0s", "1ns", "-1h", "soon", "11000d", ""} {
		_, err := run(t, "namespace", "key", "team-a", "--expires-in", life, "--database-url", url)
		require.ErrorContains(t, err, "use a time of at most 10 years, such as 24h or 90d", life)
	}
}
