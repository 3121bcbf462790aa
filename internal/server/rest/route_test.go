package rest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVerbsAreMovedToTheFront: only a colon in the last segment begins a verb.
func TestVerbsAreMovedToTheFront(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/v1/jobs":              "/api/v1/jobs",
		"/api/v1/jobs/a:pause":      "/:pause/api/v1/jobs/a",
		"/api/v1/jobs:bulk":         "/:bulk/api/v1/jobs",
		"/api/v1/jobs/a%3Ab":        "/api/v1/jobs/a%3Ab",
		"/api/v1/jobs/a%3Ab:pause":  "/:pause/api/v1/jobs/a%3Ab",
		"/api/v1/jobs/a%2Fb:pause":  "/:pause/api/v1/jobs/a%2Fb",
		"/api/v1/jobs/a:b/runs":     "/api/v1/jobs/a:b/runs",
		"/api/v1/jobs/%20%25:pause": "/:pause/api/v1/jobs/%20%25",
	} {
		got := verbRequest(httptest.NewRequest(http.MethodPost, path, nil))
		require.NotNil(t, got, path)
		require.Equal(t, want, got.URL.EscapedPath(), path)
	}
	for _, path := range []string{"/api/v1/jobs/:pause", "/:pause/api/v1/jobs/a", "/api/v1/jobs/a/:pause"} {
		require.Nil(t, verbRequest(httptest.NewRequest(http.MethodPost, path, nil)), path)
	}
}
