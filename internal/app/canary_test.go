package app

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestCanary: nodes keep a job that shows that runs start. It survives restarts, users can look at it and not change it,
// and a node without the setting removes it.
func TestCanary(t *testing.T) {
	t.Parallel()
	b := &bundle{}
	url, pool := pgtest.ServerURL(t)
	b.pool = pool
	c := testConfig(url)
	c.Canary, c.Listen = true, freeAddress(t)
	s := serveNode(t, c)
	s.log.await(t, "node started")
	const runs = `SELECT least(count(*), 1) FROM run_history h JOIN queue q ON q.id = h.queue_id
		JOIN namespace n ON n.id = q.namespace_id WHERE n.name = 'belfry-canary' AND h.ended = 1`
	b.eventually(t, 1, runs)

	db, err := postgres.Open(t.Context(), url, 2, postgres.Options{})
	require.NoError(t, err)
	defer db.Close()
	_, secret, err := db.API().CreateKey(t.Context(), access.KeyParams{
		Namespace: access.CanaryNamespace, Name: "look", Role: access.Admin, Actor: "test",
	})
	require.NoError(t, err)
	call := func(method, path string) int {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.Listen+"/api/v1"+path, nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+secret)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	listed, err := Namespaces(t.Context(), url)
	require.NoError(t, err)
	require.Len(t, listed, 1, "users see no namespace but their own: %v", listed)
	require.Equal(t, "default", listed[0].Name)
	require.Equal(t, http.StatusOK, call(http.MethodGet, "/jobs/canary"))
	require.Equal(t, http.StatusForbidden, call(http.MethodDelete, "/jobs/canary"))
	require.Equal(t, http.StatusForbidden, call(http.MethodPost, "/jobs/canary:pause"))
	require.NoError(t, s.end(t))

	_, err = pool.Exec(t.Context(), `UPDATE job SET description = 'changed by hand' WHERE name = 'canary'`)
	require.NoError(t, err)
	for range 2 { // the first gives it its definition again, the second changes nothing
		s = serveNode(t, c)
		s.log.await(t, "node started")
		require.NoError(t, s.end(t))
	}
	b.eventually(t, 2, `SELECT version FROM job WHERE name = 'canary' AND description LIKE 'Kept by the nodes%'`)

	c.Canary = false
	s = serveNode(t, c)
	s.log.await(t, "node started")
	require.NoError(t, s.end(t))
	b.eventually(t, 0, `SELECT count(*) FROM job WHERE name = 'canary'`)
}
