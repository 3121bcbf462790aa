package local_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

func TestRestoreCommands(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	restore := func(args ...string) (string, error) {
		return run(t, append([]string{"restore"}, append(args, "--database-url", url)...)...)
	}
	out, err := restore("status")
	require.NoError(t, err)
	require.Contains(t, out, "never restored")
	_, err = restore("accept")
	require.ErrorContains(t, err, "no restore of the database is waiting")

	_, err = db.Exec(t.Context(), `UPDATE cluster SET restored_from = '2026-03-08T13:00:00Z',
		restored_until = '2026-03-08T15:00:00.123456Z', held_until = '2026-03-08T15:00:00.123456Z'`)
	require.NoError(t, err)
	out, err = restore("status")
	require.NoError(t, err)
	require.Contains(t, out, "restored to 2026-03-08T13:00:00Z. Nodes noticed it at 2026-03-08T15:00:00.123456Z.")
	require.Contains(t, out, "belfry restore accept --occurrences skip --noticed 2026-03-08T15:00:00.123456Z\n")
	out, err = restore("status", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"held": true`)
	out, err = restore("accept")
	require.NoError(t, err)
	require.Contains(t, out, "WOULD RUN")
	_, err = restore("accept", "--occurrences", "all")
	require.ErrorContains(t, err, "use list, skip or run")
	_, err = restore("accept", "--occurrences", "run", "--noticed", "2026-03-08T15:00:00Z")
	require.ErrorContains(t, err, "another restore was noticed")
	out, err = restore("accept", "--occurrences", "run", "--noticed", "2026-03-08T15:00:00.123456Z")
	require.NoError(t, err)
	require.Contains(t, out, "released 0 runs")
	out, err = restore("status")
	require.NoError(t, err)
	require.Contains(t, out, "nothing is held")

	out, err = run(t, "backup", "done", "--database-url", url)
	require.NoError(t, err)
	require.Regexp(t, `^recorded a backup of \S+Z\n$`, out)
	var age float64
	require.NoError(t, db.QueryRow(t.Context(), `SELECT extract(epoch FROM now() - backed_up_at) FROM cluster`).Scan(&age))
	require.GreaterOrEqual(t, age, 0.0)
}
