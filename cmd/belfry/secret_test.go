package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/seal"
)

func TestSecretCommands(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s := a.belfry("canary-value\n", "secret", "set", "hook")
	require.NoError(t, s.failure)
	require.Contains(t, s.out, "stored")
	file := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(file, []byte("canary-again"), 0o600))
	a.good("secret", "set", "hook", "--file", file, "--keep-previous-for", "1h")
	list := a.good("secret", "list", "-o", "json")
	require.Contains(t, list, `"version": 2`)
	require.NotContains(t, list+s.out+s.err, "canary")
	require.ErrorContains(t, a.belfry("", "secret", "set", "hook").failure, "there is no value")
	require.ErrorContains(t, a.belfry("canary", "secret", "set", "No Name").failure, "not a name for a secret")
	a.good("secret", "delete", "hook")
	require.Error(t, a.belfry("", "secret", "delete", "hook").failure)
}

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
