package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shells are told commands, flags, words, and the names of what is on the server.
func TestCompletion(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	a := newAPI(t)
	t.Setenv("BELFRY_SERVER", a.url)
	t.Setenv("BELFRY_KEY", a.key)
	for _, name := range []string{"report", "reconcile", "more", "a b"} {
		a.good("job", "create", name, "--every", "1h", "--url", "https://example.com/", "--queue", "imports")
	}
	words := func(args ...string) string {
		out, err := run(t, append([]string{"__complete"}, args...)...)
		require.NoError(t, err)
		var found []string
		for _, line := range strings.Split(out, "\n") {
			if word, _, _ := strings.Cut(line, "\t"); word != "" && !strings.HasPrefix(word, ":") && !strings.HasPrefix(word, "Completion ended") {
				found = append(found, word)
			}
		}
		return strings.Join(found, ",")
	}
	require.Equal(t, "report,reconcile", words("job", "get", "re"))
	require.Equal(t, "report,reconcile", words("why", "re"))
	require.Empty(t, words("job", "get", "report", "re"), "it takes one")
	require.Equal(t, "report,reconcile", words("job", "delete", "more", "re"), "it takes many")
	require.Equal(t, "imports", words("queue", "pause", "imp"))
	require.Equal(t, "imports", words("job", "list", "--queue", "imp"))
	require.Equal(t, "report,reconcile", words("dlq", "list", "--job", "re"))
	require.Equal(t, "skip,queue,queue_all,allow,replace", words("job", "create", "x", "--overlap", ""))
	require.Equal(t, "table,json,yaml", words("job", "list", "-o", ""))
	require.Contains(t, words("key", "revoke", "key_"), "key_")
	t.Setenv("BELFRY_SERVER", "http://127.0.0.1:1")
	require.Empty(t, words("job", "get", "re"), "no server is no error in the midst of a line")
}
