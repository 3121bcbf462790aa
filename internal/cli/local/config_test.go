package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigCommands(t *testing.T) {
	t.Parallel()
	example, err := run(t, "config", "example")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "belfry.yaml")
	require.NoError(t, os.WriteFile(file, []byte(example), 0o600))
	out, err := run(t, "config", "check", file)
	require.NoError(t, err)
	require.Equal(t, file+" is good\n", out)

	out, err = run(t, "config", "show", "--config", file, "--database-url", "postgres://belfry:c4nary@db/belfry")
	require.NoError(t, err)
	require.Contains(t, out, "warning: the database's password is on the command line")
	require.Regexp(t, `(?m)^database_url +postgres://belfry:xxxxx@db/belfry +flag --database-url$`, out)
	require.NotContains(t, out, "c4nary")

	require.NoError(t, os.WriteFile(file, []byte("slotz: 3\n"), 0o600))
	_, err = run(t, "config", "check", file)
	require.EqualError(t, err, "wrong configuration: slotz: unknown setting; did you mean slots? ("+file+" line 1)")
	for _, command := range []string{"server", "migrate"} {
		_, err = run(t, command, "postgres://belfry:c4nary@db/belfry")
		require.EqualError(t, err, command+" takes no arguments, got 1; settings are flags: --database-url URL")
		_, err = run(t, command, "--config", file)
		require.ErrorContains(t, err, "slotz", "%s reads the same file", command)
	}
}
