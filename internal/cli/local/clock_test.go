package local_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

func TestClockCommands(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	out, err := run(t, "clock", "show", "--database-url", url)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^database +\S+Z$`, out)
	require.Contains(t, out, "no node has trusted it yet")

	_, err = db.Exec(t.Context(), `UPDATE cluster SET trusted_at = now() - interval '1 year'`)
	require.NoError(t, err)
	out, err = run(t, "clock", "show", "--database-url", url)
	require.NoError(t, err)
	require.Contains(t, out, "The clock is in doubt: nodes do no work.")
	out, err = run(t, "clock", "show", "-o", "json", "--database-url", url)
	require.NoError(t, err)
	require.Contains(t, out, `"in_doubt": true`)

	out, err = run(t, "clock", "confirm", "--database-url", url)
	require.NoError(t, err)
	require.Regexp(t, `^confirmed: it is \S+Z\n$`, out)
	out, err = run(t, "clock", "show", "--database-url", url)
	require.NoError(t, err)
	require.Contains(t, out, "nodes trust it")
	require.NotContains(t, out, "may trust")
	require.Regexp(t, `(?m)^last trusted +\S+Z$`, out)

	out, err = run(t, "clock", "confirm", "--database-url", url)
	require.NoError(t, err)
	require.Equal(t, "the clock is already trusted; nothing to confirm\n", out)
	var entries int
	require.NoError(t, db.QueryRow(t.Context(), `SELECT count(*) FROM audit_log`).Scan(&entries))
	require.Equal(t, 1, entries, "of the first confirm only")
	_, err = run(t, "clock", "show", "--database-url", "postgres://x@127.0.0.1:1/belfry")
	require.EqualError(t, err, "cannot connect to the database 127.0.0.1:1: connection refused; check --database-url")
}
