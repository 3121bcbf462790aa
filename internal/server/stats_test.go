package server_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

func TestStatsOfAMinute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now, err := b.store.Now(t.Context(), defaultNamespace)
	require.NoError(t, err)
	minute := now.Add(-10 * time.Minute).Truncate(time.Minute)
	row := job.StatRow{StatKey: job.StatKey{Namespace: defaultNamespace, Minute: minute}}
	row.Started, row.Succeeded, row.Late = 3, 2, 1
	for range 3 {
		row.Lateness.Count(10 * time.Millisecond)
	}
	require.NoError(t, b.store.WriteStats(t.Context(), uuid.New(), []job.StatRow{
		row, {StatKey: job.StatKey{Minute: minute}},
	}, false))
	viewer := b.newKey(defaultNamespace, access.Viewer)
	a := b.callAs(viewer, "GET", "/stats?from="+minute.Format(time.RFC3339), "")
	require.Equal(t, 200, a.status, "%s", a.body)
	series := a.json(t)["series"].([]any)
	require.Len(t, series, 1)
	first := series[0].(map[string]any)["points"].([]any)[0].(map[string]any)
	require.Equal(t, minute, timeOf(t, first["at"]))
	require.Equal(t, true, first["counted"])
	require.EqualValues(t, 3, first["started"])
	require.EqualValues(t, 2, first["succeeded"])
	require.EqualValues(t, 1, first["late"])
	require.InDelta(t, 10, first["p99_ms"], 4)
	for path, want := range map[string]int{
		"/stats": 200, "/stats?step=1h": 200, "/stats?by=queue": 200, "/stats?queue=none": 200, "/stats?step=1d": 422,
		"/stats?from=2020-01-01T00:00:00Z":         422, // too long
		"/stats?step=1h&from=2020-01-01T00:00:00Z": 422,
		"/stats?from=2100-01-01T00:00:00Z":         422,
	} {
		require.Equal(t, want, b.call("GET", path, "").status, path)
	}
	id := uuid.Must(uuid.NewV7())
	_, err = b.pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES ($1, 'other')`, id)
	require.NoError(t, err)
	other := b.newKey(id, access.Admin)
	for _, p := range b.callAs(other, "GET", "/stats", "").json(t)["series"].([]any)[0].(map[string]any)["points"].([]any) {
		require.Zero(t, p.(map[string]any)["started"])
	}
}
