package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPreviews(t *testing.T) {
	t.Parallel()
	b := setup(t)
	viewer := b.newKey(defaultNamespace, "viewer")
	const spec = `{"cron":"30 2 * * *","timezone":"America/New_York"}`
	const shifted = `[
		{"due_at":"2026-03-08T07:00:00Z","local":"2026-03-08T03:00:00-04:00",
			"mark":"shifted","nominal":"2026-03-08T02:30:00"},
		{"due_at":"2026-03-09T06:30:00Z","local":"2026-03-09T02:30:00-04:00"}]`
	want := `{"schedule":` + spec + `,"words":"at 02:30 every day, America/New_York","zone":"America/New_York",` +
		`"occurrences":` + shifted + `,"more":true,"clock_changes":[
		{"at":"2026-03-08T07:00:00Z","local":"2026-03-08T03:00:00-04:00",
			"offset_before":"-05:00","offset_after":"-04:00"},
		{"at":"2026-11-01T06:00:00Z","local":"2026-11-01T01:00:00-05:00",
			"offset_before":"-04:00","offset_after":"-05:00"}]}`
	a := b.callAs(viewer, "POST", "/jobs:preview", `{"schedule":`+spec+`,"from":"2026-03-07T12:00:00Z","count":2}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.JSONEq(t, want, string(a.body))
	whole := `{"name":"x","schedule":` + spec + `,"target":{"kind":"noop"}}`
	a = b.callAs(viewer, "POST", "/jobs:preview", `{"job":`+whole+`,"from":"2026-03-07T12:00:00Z","count":2}`)
	require.JSONEq(t, want, string(a.body))
	b.make(whole)
	saved := b.callAs(viewer, "GET", "/jobs/x", "").json(t)
	require.Equal(t, "at 02:30 every day, America/New_York", saved["words"])
	require.Equal(t, "America/New_York", saved["zone"])
	due, err := time.Parse(time.RFC3339, saved["next_due_at"].(string))
	require.NoError(t, err)
	zone, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	require.Equal(t, due.In(zone).Format(time.RFC3339), saved["next_due_local"])
	a = b.callAs(viewer, "GET", "/jobs/x/preview?from=2026-03-07T12:00:00Z&count=2", "")
	require.JSONEq(t, want, string(a.body))
	require.Len(t, b.callAs(viewer, "GET", "/jobs/x/preview", "").json(t)["occurrences"], 10)

	a = b.call("POST", "/jobs:preview", `{"schedule":"2020-01-01T00:00:00Z"}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, false, a.json(t)["more"])
	require.Empty(t, a.json(t)["occurrences"])
	for body, field := range map[string]string{
		`{}`: "schedule",
		`{"schedule":"* * * * *","job":` + whole + `}`:                                      "schedule",
		`{"schedule":"0 0 30 2 *"}`:                                                         "schedule.cron",
		`{"job":{"name":"x","schedule":"* * * * *","target":{"kind":"noop"},"queue":"NO"}}`: "queue",
		`{"schedule":"* * * * *","from":"9999-01-01T00:00:00Z"}`:                            "from",
		`{"schedule":"* * * * *","count":101}`:                                              "count",
	} {
		a := b.call("POST", "/jobs:preview", body)
		require.Equal(t, 422, a.status, "%s: %s", body, a.body)
		require.Contains(t, string(a.body), `"field":"`+field+`"`)
	}
	require.Equal(t, 404, b.call("GET", "/jobs/y/preview", "").status)

	keyed := func(expression, payload string) map[string]any {
		a := b.call("POST", "/jobs:preview", `{"job":{"name":"x","schedule":`+spec+`,"target":{"kind":"noop"},`+
			`"payload":`+payload+`,"idempotency_key":"`+expression+`"},"from":"2026-03-07T12:00:00Z"}`)
		require.Equal(t, 200, a.status, "%s", a.body)
		return a.json(t)
	}
	got := keyed(`job.namespace + '/' + job.name + '/' + string(due_at)`, `null`)
	require.Equal(t, "default/x/2026-03-08T07:00:00Z", got["idempotency_key"])
	require.Contains(t, keyed(`payload.x`, `{"y":1}`)["idempotency_key_problem"], "have no x")
	a = b.call("POST", "/jobs:preview",
		`{"job":{"name":"x","schedule":`+spec+`,"target":{"kind":"noop"},"idempotency_key":"job.nmae"}}`)
	require.Equal(t, 422, a.status)
	require.Contains(t, string(a.body), `did you mean 'job.name'`)
}
