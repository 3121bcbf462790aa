package app

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/config"
)

// TestADisabledKindIsRejected when a job is saved, by default too.
func TestADisabledKindIsRejected(t *testing.T) {
	t.Parallel()
	s, c := serveAPI(t, func(c *Config) { c.Targets.Kinds = config.Default().Targets.Kinds })
	status, answer, _ := c.call("POST", "/api/v1/jobs", `{"name":"c","schedule":"every 1h",
		"target":{"kind":"nats","config":{"servers":["127.0.0.1"],"subject":"s"}}}`)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	found := answer["problems"].([]any)[0].(map[string]any)
	require.Equal(t, "target.kind", found["field"])
	require.Equal(t, "this kind of target is disabled on this server", found["problem"])
	require.Equal(t, "add it to the setting targets.kinds of all nodes and restart them, or use one of "+
		"http, noop, worker", found["fix"])
	require.NoError(t, s.end(t))
}
