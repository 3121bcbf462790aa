package server_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
)

// TestTimelineHasWhatTheListOfRunsLacks: what a whole schedule skipped, and the future with its clock changes.
func TestTimelineHasWhatTheListOfRunsLacks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	viewer := b.newKey(defaultNamespace, access.Viewer)
	id := b.make(`{"name":"a","schedule":{"cron":"30 2 * * *","timezone":"Europe/Berlin"},"target":{"kind":"noop"}}`)
	exec := func(sql string, args ...any) {
		_, err := b.pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	exec(`UPDATE job SET created_at = '2026-01-01Z', plan_from = '2026-01-01Z'`)
	exec(`UPDATE job_version SET created_at = '2026-01-01Z'`)
	exec(`CREATE TABLE run_history_20251201 PARTITION OF run_history FOR VALUES FROM ('2025-12-01Z') TO ('2025-12-02Z')`)
	exec(`INSERT INTO cursor_skip (partition, cursor_id, from_due, to_due, count, reason, created_at, namespace_id)
SELECT partition, cursor_id, '2026-02-02T01:30:00Z', '2026-02-03T01:30:00Z', 2, 'missed_window', now(), namespace_id
FROM job`)
	exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt,
    origin, status, queue_id, reason)
SELECT partition, 0, 1, id, d, d, d + interval '2 s', now(), 2, 1, 0, 500, queue_id, 'attempts'
FROM job, unnest(ARRAY['2026-02-01T01:30:00Z', '2026-02-04T01:30:00Z']::timestamptz[]) d`)
	get := func(query string) answer { return b.callAs(viewer, "GET", "/jobs/"+id+"/timeline?"+query, "") }
	got := get("from=2026-02-01T00:00:00Z&to=2026-02-05T00:00:00Z").json(t)
	items := got["items"].([]any)
	require.Len(t, items, 4, "%v", items)
	for i, want := range []map[string]any{
		{"due_at": "2026-02-01T01:30:00Z", "state": "failed", "reason": "attempts", "lateness_ms": 2000.0, "origin": "schedule"},
		{"due_at": "2026-02-02T01:30:00Z", "state": "skipped", "reason": "missed_window", "local": "2026-02-02T02:30:00+01:00"},
		{"due_at": "2026-02-03T01:30:00Z", "state": "skipped", "reason": "missed_window"},
		{"due_at": "2026-02-04T01:30:00Z", "state": "failed"},
	} {
		for field, value := range want {
			require.Equal(t, value, items[i].(map[string]any)[field], "%d %s", i, field)
		}
	}
	require.Equal(t, false, got["partial"])
	require.Equal(t, "Europe/Berlin", got["zone"])
	runs := b.callAs(viewer, "GET", "/jobs/"+id+"/runs", "").json(t)["items"].([]any)
	require.Len(t, runs, 2+len(pendingOf(runs)), "the list of runs does not have them")

	stats := b.callAs(viewer, "GET", "/jobs/a/stats?from=2026-02-01T00:00:00Z&to=2026-02-05T00:00:00Z", "").json(t)
	for field, want := range map[string]any{
		"runs": 2.0, "succeeded": 0.0, "failed": 2.0, "missed": 2.0, "skipped": 0.0, "success_rate": 0.0, "partial": false,
		"streak": map[string]any{"state": "failed", "count": 2.0}, "lateness_ms": map[string]any{"p50": 2000.0, "p95": 2000.0},
	} {
		require.Equal(t, want, stats[field], field)
	}
	require.NotContains(t, stats, "last_success_at")
	require.NotEmpty(t, stats["last_failure_at"])
	require.Nil(t, b.callAs(viewer, "GET", "/jobs/a/stats?to=2026-01-01T00:00:00Z", "").json(t)["success_rate"])
	require.Equal(t, 404, b.call("GET", "/jobs/none/stats", "").status)

	next := springAfter(clock.Now())
	got = get("from=" + url.QueryEscape(next.AddDate(0, 0, -1).Format(time.RFC3339)) + "&to=" +
		url.QueryEscape(next.AddDate(0, 0, 2).Format(time.RFC3339))).json(t)
	marks := map[any]int{}
	for _, i := range got["items"].([]any) {
		require.Equal(t, "planned", i.(map[string]any)["state"])
		marks[i.(map[string]any)["mark"]]++
	}
	require.Equal(t, map[any]int{nil: 3, "shifted": 1}, marks)

	require.Empty(t, got["versions"])
	require.Len(t, get("from=2025-12-31T00:00:00Z&to=2026-01-02T00:00:00Z").json(t)["versions"], 1)
	require.Equal(t, 422, get("from=2026-02-01T00:00:00Z&to=2026-02-01T00:00:00Z").status)
	require.Equal(t, 422, get("from=2024-02-01T00:00:00Z&to=2026-02-01T00:00:00Z").status)
	require.Equal(t, 422, get("from=0001-02-01T00:00:00Z&to=0001-02-03T00:00:00Z").status)
	require.Equal(t, 200, get("").status)

	require.Equal(t, 204, b.call("DELETE", "/jobs/a", "").status)
	require.Len(t, get("from=2026-02-01T00:00:00Z&to=2026-02-05T00:00:00Z").json(t)["items"], 4, "its history stays")
	require.Equal(t, 404, b.call("GET", "/jobs/a/timeline", "").status)
}

// springAfter is the next last Sunday of March, when clocks go forward in Berlin.
func springAfter(now time.Time) time.Time {
	for year := now.Year(); ; year++ {
		at := time.Date(year, 3, 31, 1, 0, 0, 0, time.UTC)
		at = at.AddDate(0, 0, -int(at.Weekday()))
		if at.After(now.AddDate(0, 0, 2)) {
			return at
		}
	}
}

func pendingOf(runs []any) (out []any) {
	for _, r := range runs {
		if r.(map[string]any)["state"] == "pending" {
			out = append(out, r)
		}
	}
	return out
}

func TestTimelineBuckets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(`{"name":"a","schedule":"* * * * *","target":{"kind":"noop"}}`)
	got := b.call("GET", "/jobs/"+id+"/timeline?from=2100-01-01T00:00:00Z&to=2100-01-02T00:00:00Z", "").json(t)
	require.Empty(t, got["items"])
	require.Equal(t, false, got["partial"])
	sum := 0.0
	for _, x := range got["buckets"].([]any) {
		sum += x.(map[string]any)["planned"].(float64)
	}
	require.InDelta(t, 1440, sum, 0)
	got = b.call("GET", "/jobs/"+id+"/timeline?from=2100-01-01T00:00:00Z&to=2101-01-01T00:00:00Z", "").json(t)
	require.Equal(t, true, got["partial"])
	require.Equal(t, "2100-01-01T00:00:00Z", got["covered_from"])
	require.Equal(t, "2100-01-15T14:00:00Z", got["covered_to"], "21,000 minutes")
}

// Days of buckets begin at midnight in the zone of the schedule, or in the one that the request names.
func TestTimelineBucketsBeginInTheZone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(`{"name":"a","schedule":{"cron":"*/30 * * * *","timezone":"Europe/Berlin"},"target":{"kind":"noop"}}`)
	for zone, from := range map[string]string{
		"": "2100-01-01T23:00:00Z", "America/New_York": "2100-01-02T05:00:00Z", "Asia/Kolkata": "2100-01-01T18:30:00Z",
	} {
		window := "?from=" + from + "&to=2100-02-05T00:00:00Z&zone=" + zone
		got := b.call("GET", "/jobs/"+id+"/timeline"+window, "").json(t)
		begin := map[string]bool{}
		for _, x := range got["buckets"].([]any) {
			begin[x.(map[string]any)["from"].(string)] = true
		}
		at, err := time.Parse(time.RFC3339, from)
		require.NoError(t, err)
		for range 34 {
			require.Contains(t, begin, at.Format(time.RFC3339), zone)
			at = at.Add(24 * time.Hour)
		}
	}
	require.Equal(t, 422, b.call("GET", "/jobs/"+id+"/timeline?zone=Mars/Phobos", "").status)
}
