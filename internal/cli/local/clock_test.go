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
	require.Contains(t, out, "it is in doubt")
	out, err = run(t, "clock", "show", "-o", "json", "--database-url", url)
	require.NoError(t, err)
	require.Contains(t, out, `"in_doubt": true`)

	out, err = run(t, "clock", "confirm", "--database-url", url)
	require.NoError(t, err)
	require.Regexp(t, `^confirmed: it is \S+Z\n$`, out)
	out, err = run(t, "clock", "show", "--database-url", url)
	require.NoError(t, err)
	require.Contains(t, out, "nodes may trust it")
}
