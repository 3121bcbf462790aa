package app

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMetricsAreForThisMachine: a page in a browser on this machine cannot read them under a name of its own.
func TestMetricsAreForThisMachine(t *testing.T) {
	t.Parallel()
	_, c := serveAPI(t, func(c *Config) { c.MetricsListen = "" })
	for host, status := range map[string]int{
		"":               http.StatusOK, // that of the URL
		"localhost:8420": http.StatusOK,
		"[::1]":          http.StatusOK,
		"pages.example":  http.StatusForbidden,
		"10.1.2.3":       http.StatusForbidden,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/metrics", http.NoBody)
		require.NoError(t, err)
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, host)
	}
}
