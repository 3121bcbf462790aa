package local_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

func TestReportKeyCommands(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	keyset := filepath.Join(t.TempDir(), "keyset.json")
	_, err := run(t, "secret", "keyset", "new", keyset)
	require.NoError(t, err)
	type key struct {
		Encrypted bool
		Until     *string
	}
	list := func() (all []key) {
		out, err := run(t, "report-key", "list", "--database-url", url, "-o", "json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		return all
	}
	require.Len(t, list(), 1)
	out, err := run(t, "report-key", "rotate", "--database-url", url, "--keep", "1h")
	require.NoError(t, err)
	require.Contains(t, out, "not encrypted, because this command and the nodes have no keyset")
	out, err = run(t, "report-key", "rotate", "--database-url", url, "--secrets-keyset-file", keyset)
	require.NoError(t, err)
	require.Contains(t, out, "encrypted with the keyset\nnodes sign with it from")
	require.Contains(t, out, "at the latest")
	all := list()
	require.Len(t, all, 3)
	require.True(t, all[0].Encrypted)
	require.Nil(t, all[0].Until)
	require.False(t, all[1].Encrypted)
	require.NotNil(t, all[2].Until)
	out, err = run(t, "report-key", "list", "--database-url", url)
	require.NoError(t, err)
	require.Contains(t, out, "ACCEPTED UNTIL UTC")
	for _, bad := range []string{"x", "-1s", "31d"} {
		_, err = run(t, "report-key", "rotate", "--database-url", url, "--keep", bad)
		require.Error(t, err, bad)
	}
	require.Len(t, list(), 3)
}
