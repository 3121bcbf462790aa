package server_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 6 {
		b.make(fmt.Sprintf(`{"name":"hourly-%d","schedule":"0 * * * *","target":{"kind":"noop"},"queue":"%s",`+
			`"labels":{"team":"t%d"}}`, i, []string{"default", "slow"}[i%2], i%3))
	}
	b.make(`{"name":"often","schedule":"every 15m","target":{"kind":"noop"}}`)
	require.Equal(t, 200, b.call("POST", "/jobs/hourly-5:pause", "").status)
	require.Equal(t, 200, b.call("PUT", "/queues/slow", `{"rate":"2/s"}`).status)

	foreign := uuid.New()
	_, err := b.pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES ($1, 'other')`, foreign)
	require.NoError(t, err)
	theirs := `{"name":"hourly","schedule":"0 * * * *","target":{"kind":"noop"},"queue":"slow"}`
	require.Equal(t, 201, b.callAs(b.newKey(foreign, access.Admin), "POST", "/jobs", theirs).status)

	viewer := b.newKey(defaultNamespace, access.Viewer)
	// The next hours, however long the test takes: from is a full hour, two hours ahead.
	from := clock.Now().UTC().Truncate(time.Hour).Add(2 * time.Hour)
	span := "from=" + url.QueryEscape(from.Format(time.RFC3339)) + "&to=" + url.QueryEscape(from.Add(3*time.Hour).Format(time.RFC3339))
	load := func(query string) map[string]any {
		a := b.callAs(viewer, "GET", "/load?"+span+query, "")
		require.Equal(t, 200, a.status, "%s", a.body)
		return a.json(t)
	}
	got := load("")
	counts := got["counts"].([]any)
	require.Len(t, counts, 180)
	require.EqualValues(t, 6, counts[0], "five hourly jobs, and the one of each 15 minutes")
	require.EqualValues(t, 0, counts[1])
	require.EqualValues(t, 1, counts[15])
	require.Equal(t, true, got["exact"])
	require.EqualValues(t, 1, got["fraction"])
	require.Equal(t, "1m", got["step"])
	require.Equal(t, "UTC", got["zone"])
	require.NotContains(t, got, "capacity")
	hot := got["hot"].([]any)[0].(map[string]any)
	require.Equal(t, from.Format(time.RFC3339), hot["at"])
	require.EqualValues(t, 6, hot["count"])
	first := hot["schedules"].([]any)[0].(map[string]any)
	require.EqualValues(t, 5, first["jobs"])
	require.EqualValues(t, 5, first["count"])
	require.Equal(t, "0 0-23 * 1-12 *", first["schedule"].(map[string]any)["cron"], "in the form that all its jobs share")
	require.NotEmpty(t, first["words"])

	got = load("&queue=slow")
	require.EqualValues(t, 2, got["counts"].([]any)[0], "one is paused")
	require.EqualValues(t, 120, got["capacity"])
	require.EqualValues(t, 0, load("&queue=none")["counts"].([]any)[0])
	require.EqualValues(t, 1, load("&queue=slow&label=team%3Dt0")["counts"].([]any)[0])
	got = load("&step=1h")
	require.Equal(t, []any{9., 9., 9.}, got["counts"], "five hourly runs, and four of the other")

	// A response is kept for a moment.
	b.make(`{"name":"late","schedule":"0 * * * *","target":{"kind":"noop"}}`)
	require.EqualValues(t, 9, load("&step=1h")["counts"].([]any)[0])

	for _, query := range []string{
		"from=2020-01-01T00:00:00Z", span + "&label=team", span + "&step=5m",
		"from=2036-01-01T00:00:00Z&to=2037-01-01T00:00:00Z", "from=2036-01-02T00:00:00Z&to=2036-01-01T00:00:00Z",
	} {
		require.Equal(t, 422, b.callAs(viewer, "GET", "/load?"+query, "").status, query)
	}
	require.Len(t, b.callAs(viewer, "GET", "/load", "").json(t)["counts"], 1440)
}
