package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestQuotas: viewers see them, and a request that would exceed one gets a problem of its own.
func TestQuotas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.pool.Exec(t.Context(), `UPDATE namespace SET max_jobs = 1 WHERE id = $1`, defaultNamespace)
	require.NoError(t, err)
	require.Equal(t, 201, b.call(http.MethodPost, "/jobs", hourly).status)
	another := strings.Replace(hourly, "report", "another", 1)
	p := b.call(http.MethodPost, "/jobs", another)
	require.Equal(t, http.StatusForbidden, p.status)
	require.Equal(t, map[string]any{
		"type": "urn:belfry:problem:quota_exceeded", "code": "quota_exceeded", "status": 403.,
		"title": "A quota or limit of the namespace is used up",
		"detail": "the namespace uses 1 of its quota of 1 jobs, and this needs 1 more; delete jobs that are no longer " +
			"needed, or ask the operator of the cluster to raise the quota",
	}, pick(p.json(t), "type", "code", "status", "title", "detail"))
	require.Equal(t, http.StatusForbidden, b.call(http.MethodPut, "/jobs/another", another).status)
	p = b.call(http.MethodPost, "/jobs:bulk", another, "Content-Type", "application/x-ndjson")
	require.Contains(t, string(p.body), `"code":"quota_exceeded"`)

	b.key = b.newKey(defaultNamespace, access.Viewer)
	list := b.call(http.MethodGet, "/quotas", "")
	require.Equal(t, 200, list.status)
	items, ok := list.json(t)["items"].([]any)
	require.True(t, ok)
	require.Subset(t, items, []any{
		map[string]any{"name": "jobs", "limit": 1., "used": 1.},
	})
}
