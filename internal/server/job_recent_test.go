package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

func TestRecentRunsOfJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	viewer := b.newKey(defaultNamespace, access.Viewer)
	for _, name := range []string{"a", "b"} {
		b.make(`{"name":"` + name + `","schedule":"every 1h","target":{"kind":"noop"}}`)
	}
	_, err := b.pool.Exec(t.Context(), `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
                         status, queue_id, reason)
SELECT partition, 0, 1, id, d, d, d + interval '1500 ms', now(), e, 1, 0, 500, queue_id,
       CASE e WHEN 2 THEN 'attempts' END
FROM job, unnest(ARRAY['2026-01-31T09:00:00Z', '2026-01-31T10:00:00Z']::timestamptz[], ARRAY[1, 2]) AS x(d, e)
WHERE name = 'b'`)
	require.NoError(t, err)

	without := b.callAs(viewer, "GET", "/jobs/b", "").json(t)
	require.NotContains(t, without, "recent")
	one := b.callAs(viewer, "GET", "/jobs/b?include=recent", "").json(t)
	recent := one["recent"].([]any)
	require.Len(t, recent, 2)
	first, last := recent[0].(map[string]any), recent[1].(map[string]any)
	require.Equal(t, "2026-01-31T09:00:00Z", first["due_at"])
	require.Equal(t, "succeeded", first["state"])
	require.EqualValues(t, 1500, first["lateness_ms"])
	require.Equal(t, "failed", last["state"])
	require.Equal(t, "attempts", last["reason"])
	require.Equal(t, 200, b.callAs(viewer, "GET", "/runs/"+last["run"].(string), "").status)

	items := b.callAs(viewer, "GET", "/jobs?include=recent&page_size=500", "").json(t)["items"].([]any)
	require.Len(t, items, 2)
	require.NotContains(t, items[0], "recent")
	require.Equal(t, recent, items[1].(map[string]any)["recent"])
	require.Equal(t, 422, b.call("GET", "/jobs?include=all", "").status)
}
