package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/seal"
)

func TestKeysetCommands(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "keyset.json")
	read := func() *seal.Keyset {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		k, err := seal.Read(string(text))
		require.NoError(t, err)
		return k
	}
	step := func(verb string) error {
		_, err := run(t, "secret", "keyset", verb, name)
		return err
	}
	require.NoError(t, step("new"))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	first := read()
	require.ErrorContains(t, step("new"), "already")
	require.NoError(t, step("add"))
	require.Equal(t, first.Prefix(), read().Prefix())
	require.NoError(t, step("use"))
	require.NotEqual(t, first.Prefix(), read().Prefix())
	require.NoError(t, step("drop"))
	sealed, err := first.Seal([]byte("x"), nil)
	require.NoError(t, err)
	_, err = read().Open(sealed, nil)
	require.Error(t, err)
}
