package app

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAProgramOfAnotherNamespaceIsRejected when a job is saved, however it is saved.
func TestAProgramOfAnotherNamespaceIsRejected(t *testing.T) {
	t.Parallel()
	s, c := serveAPI(t, func(c *Config) {
		c.Command.Enabled, c.Command.Programs = true, "/bin/bash:default=/bin/cat:billing=/bin/sh"
	})
	job := func(program string) string {
		return `{"name":"c","schedule":"every 1h","target":{"kind":"command","config":{"program":"` + program + `"}}}`
	}
	for _, call := range []struct{ method, path, body string }{
		{"POST", "/api/v1/jobs", job("/bin/bash")},
		{"PUT", "/api/v1/jobs/c", job("/bin/cat")},
	} {
		status, answer, _ := c.call(call.method, call.path, call.body)
		require.Less(t, status, 300, answer)
	}
	for _, call := range []struct{ method, path, body string }{
		{"POST", "/api/v1/jobs", job("/bin/sh")},
		{"PUT", "/api/v1/jobs/c", job("/bin/sh")},
		{"PATCH", "/api/v1/jobs/c", `{"target":{"config":{"program":"/bin/sh"}}}`},
		{"POST", "/api/v1/jobs:preview", `{"job":` + job("/bin/sh") + `}`},
	} {
		status, answer, _ := c.call(call.method, call.path, call.body)
		require.Equal(t, http.StatusUnprocessableEntity, status, answer)
		require.Equal(t, []any{map[string]any{
			"field":   "target.config.program",
			"problem": "it is not among the programs that jobs of the namespace default may run",
			"fix": "use another one, or have the operator add it to the setting command.programs of all nodes and restart " +
				"them; an entry that begins with default= is for this namespace only",
		}}, answer["problems"], call.method)
	}
	require.NoError(t, s.end(t))
}
