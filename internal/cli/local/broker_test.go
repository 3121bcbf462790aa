package local_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestBrokerCommands: a broker is set, listed without its credentials, replaced and deleted.
func TestBrokerCommands(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	keyset, password := filepath.Join(t.TempDir(), "keyset.json"), filepath.Join(t.TempDir(), "password")
	_, err := run(t, "secret", "keyset", "new", keyset)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(password, []byte("canary-password\n"), 0o600))
	set := func(more ...string) (string, error) {
		return run(t, append([]string{
			"broker", "set", "orders", "--kind", "kafka", "--server", "kafka.example.com", "--database-url", url,
		}, more...)...)
	}
	for _, wrong := range [][]string{
		{},
		{"--all-namespaces", "--namespace", "default"},
		{"--namespace", "none"},
		{"--all-namespaces", "--username", "u"},
		{"--all-namespaces", "--username", "u", "--password-file", password}, // without a keyset
		{"--all-namespaces", "--tls-ca", password},
		{"--all-namespaces", "--password-file", "/no/such/file"},
	} {
		out, err := set(wrong...)
		require.Error(t, err, wrong)
		require.NotContains(t, out+err.Error(), "canary")
	}
	out, err := set("--all-namespaces", "--username", "u", "--password-file", password, "--tls", "--secrets-keyset-file", keyset)
	require.NoError(t, err)
	require.Contains(t, out, "orders")
	list := func() (all []map[string]any) {
		out, err := run(t, "broker", "list", "--database-url", url, "-o", "json")
		require.NoError(t, err)
		require.NotContains(t, out, "canary")
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		return all
	}
	all := list()
	require.Len(t, all, 1)
	delete(all[0], "updated_at")
	require.Equal(t, map[string]any{
		"name": "orders", "kind": "kafka", "servers": []any{"kafka.example.com:9092"}, "tls": true, "user": "u", "namespaces": nil,
	}, all[0])
	_, err = set("--namespace", "default")
	require.NoError(t, err)
	require.Equal(t, []any{"default"}, list()[0]["namespaces"])
	require.Equal(t, false, list()[0]["tls"])
	_, err = run(t, "broker", "delete", "orders", "--database-url", url)
	require.NoError(t, err)
	require.Empty(t, list())
}
