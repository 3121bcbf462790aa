package server_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// TestOperationsShareTheNodes: a namespace has a limited number of running operations, and others do not wait for them.
func TestOperationsShareTheNodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.Must(uuid.NewV7())
	_, err := b.pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES ($1, 'other')`, id)
	require.NoError(t, err)
	other := b.newKey(id, access.Admin)
	b.make(hourly)
	var first string
	for range job.MaxRunningOperations {
		first = b.begin("/jobs:pause", `{"all":true}`)
	}
	a := b.call("POST", "/jobs:pause", `{"all":true}`)
	require.Equal(t, 409, a.status, "%s", a.body)
	require.Contains(t, string(a.body), "20 operations")
	a = b.callAs(other, "POST", "/jobs:pause", `{"all":true}`)
	require.Equal(t, 202, a.status, "another namespace has its own: %s", a.body)
	for range 2 {
		_, err := b.store.WorkOperation(t.Context())
		require.NoError(t, err)
	}
	got := b.callAs(other, "GET", "/operations/"+a.json(t)["id"].(string), "").json(t)
	require.Equal(t, "finished", got["state"], "its turn came")
	require.Equal(t, 200, b.call("POST", first+":abort", "").status)
	b.begin("/jobs:pause", `{"all":true}`)
}
