package app

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/config"
)

// TestSecretsInTheClearWarn: a job that would send a stored secret without encryption is saved, with a warning.
func TestSecretsInTheClearWarn(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	_, editor := w.key(access.DefaultNamespace, access.Editor, 0)
	const warning = "without encryption"
	for i, c := range []struct {
		kind, config string
		warns        bool
	}{
		{"http", `"url":"http://x.example/","auth":{"bearer":{"secret":"a"}}`, true},
		{"http", `"url":"http://x.example/${secret.a}"`, true},
		{"http", `"url":"https://x.example/${secret.a}"`, false},
		{"http", `"url":"http://127.0.0.1/${secret.a}"`, false},
		{"http", `"url":"http://x.example/","signing":{"secret":"a"}`, false},
	} {
		body := fmt.Sprintf(`{"name":"job-%d","schedule":"every 24h","target":{"kind":%q,"config":{%s}}}`, i, c.kind, c.config)
		for _, way := range []struct{ method, path string }{
			{"POST", "/api/v1/jobs"}, {"PUT", fmt.Sprintf("/api/v1/jobs/job-%d", i)},
		} {
			got := w.call(editor, way.method, way.path, body)
			require.Less(t, got.status, 300, got.text)
			if c.warns {
				require.Contains(t, got.text, warning, body)
			} else {
				require.NotContains(t, got.text, warning, body)
			}
		}
	}
}

// TestSecretsInTheClearAreRefused: the setting reaches the targets.
func TestSecretsInTheClearAreRefused(t *testing.T) {
	t.Parallel()
	_, c := serveAPI(t, func(c *Config) { c.Targets.SecretsInClear = config.Refuse })
	const body = `{"name":"a","schedule":"every 24h","target":{"kind":"http","config":{"url":"%s://x.example/${secret.a}"}}}`
	status, answer, _ := c.call("POST", "/api/v1/jobs", fmt.Sprintf(body, "http"))
	require.Equal(t, http.StatusUnprocessableEntity, status, answer)
	status, answer, _ = c.call("POST", "/api/v1/jobs", fmt.Sprintf(body, "https"))
	require.Equal(t, http.StatusCreated, status, answer)
}
