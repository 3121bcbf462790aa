package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

// Completion offers commands, flags, words, and names from the server.
func TestCompletion(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	a := clitest.New(t, New)
	t.Setenv("BELFRY_SERVER", a.URL)
	t.Setenv("BELFRY_KEY", a.Key)
	for _, name := range []string{"report", "reconcile", "more", "a b"} {
		a.Good("job", "create", name, "--every", "1h", "--url", "https://example.com/", "--queue", "imports")
	}
	words := func(args ...string) string {
		out, err := clitest.Run(t, New, append([]string{"__complete"}, args...)...)
		require.NoError(t, err)
		var found []string
		for _, line := range strings.Split(out, "\n") {
			word, _, _ := strings.Cut(line, "\t")
			if word != "" && !strings.HasPrefix(word, ":") && !strings.HasPrefix(word, "Completion ended") {
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
	require.Equal(t, "table,wide,name,json,yaml", words("job", "list", "-o", ""))
	require.Contains(t, words("key", "revoke", "key_"), "key_")
	t.Setenv("BELFRY_SERVER", "http://127.0.0.1:1")
	require.Empty(t, words("job", "get", "re"), "no server is no error in the midst of a line")
}
