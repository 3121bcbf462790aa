package admin_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

func TestSecretCommands(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	s := a.Belfry("canary-value\n", "secret", "set", "hook")
	require.NoError(t, s.Failure)
	require.Contains(t, s.Out, "stored")
	file := filepath.Join(t.TempDir(), "value")
	require.NoError(t, os.WriteFile(file, []byte("canary-again"), 0o600))
	a.Good("secret", "set", "hook", "--file", file, "--keep-previous-for", "1h")
	list := a.Good("secret", "list", "-o", "json")
	require.Contains(t, list, `"version": 2`)
	require.NotContains(t, list+s.Out+s.Err, "canary")
	require.ErrorContains(t, a.Belfry("", "secret", "set", "hook").Failure, "there is no value")
	require.ErrorContains(t, a.Belfry("canary", "secret", "set", "No Name").Failure, "not a name for a secret")
	a.Good("secret", "bind", "hook", "--host", "hooks.example.com,*.example.org", "--kind", "http")
	list = a.Good("secret", "list")
	require.Contains(t, list, "*.example.org,hooks.example.com")
	s = a.Belfry("canary-next", "secret", "set", "hook")
	require.NoError(t, s.Failure)
	require.Contains(t, s.Out, "bound to hosts: *.example.org,hooks.example.com")
	require.Contains(t, s.Out, "bound to kinds: http")
	a.Good("secret", "bind", "hook", "--host", "")
	list = a.Good("secret", "list", "-o", "json")
	require.NotContains(t, list, "example")
	require.Contains(t, list, `"kinds"`)
	require.ErrorContains(t, a.Belfry("", "secret", "bind", "hook").Failure, "nothing to change")
	require.ErrorContains(t, a.Belfry("", "secret", "bind", "hook", "--kind", "pigeon").Failure, "unknown value")
	require.NoError(t, a.Belfry("canary", "secret", "set", "token", "--host", "hooks.example.com").Failure)
	require.Contains(t, a.Good("secret", "list"), "hooks.example.com")
	a.Good("secret", "delete", "hook")
	require.Error(t, a.Belfry("", "secret", "delete", "hook").Failure)
}
