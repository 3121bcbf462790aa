package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestAJobIsRolledBack: each change is a version, an unchanged write is none, and a rollback restores a definition.
func TestAJobIsRolledBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(putBody("a", 1))
	first := b.call(http.MethodGet, "/jobs/a", "")
	same := b.call(http.MethodPut, "/jobs/a", putBody("a", 1))
	require.Equal(t, 200, same.status, "%s", same.body)
	require.Equal(t, first.header.Get("ETag"), same.header.Get("ETag"), "an unchanged PUT")
	same = b.call(http.MethodPatch, "/jobs/a", `{"priority":1}`, "Content-Type", "application/merge-patch+json")
	require.Equal(t, first.header.Get("ETag"), same.header.Get("ETag"), "an unchanged PATCH")
	require.Equal(t, 200, b.call(http.MethodPut, "/jobs/a", putBody("a", 2)).status)
	require.Equal(t, 200, b.call(http.MethodPut, "/jobs/a", putBody("a", 3)).status)

	page := b.call(http.MethodGet, "/jobs/a/versions?page_size=2", "").json(t)
	require.Len(t, page["items"], 2)
	require.EqualValues(t, 3, page["items"].([]any)[0].(map[string]any)["version"], "newest first")
	page = b.call(http.MethodGet, "/jobs/"+id+"/versions?page_token="+page["next_page_token"].(string), "").json(t)
	require.Len(t, page["items"], 1)
	require.NotEmpty(t, page["items"].([]any)[0].(map[string]any)["created_by"])
	require.NotContains(t, page, "next_page_token")
	old := b.call(http.MethodGet, "/jobs/a/versions/1", "").json(t)
	require.EqualValues(t, 1, old["definition"].(map[string]any)["priority"])
	require.NotEmpty(t, old["words"])
	for _, path := range []string{"/jobs/a/versions/9", "/jobs/none/versions"} {
		require.Equal(t, 404, b.call(http.MethodGet, path, "").status, path)
	}

	rollback := func(body string, header ...string) answer {
		return b.call(http.MethodPost, "/jobs/a:rollback", body, header...)
	}
	require.Equal(t, 404, rollback(`{"version":9}`).status)
	require.Equal(t, 422, rollback(`{"version":0}`).status)
	require.Equal(t, 412, rollback(`{"version":1}`, "If-Match", `"2"`).status)
	require.Equal(t, 403, b.callAs(b.newKey(defaultNamespace, access.Operator), http.MethodPost, "/jobs/a:rollback",
		`{"version":1}`).status)
	a := rollback(`{"version":1}`, "If-Match", `"3"`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.EqualValues(t, 4, a.json(t)["version"])
	require.EqualValues(t, 1, a.json(t)["priority"])
	again := rollback(`{"version":1}`)
	require.Equal(t, a.header.Get("ETag"), again.header.Get("ETag"), "nothing to restore")
	var entries int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM audit_log
		WHERE action = 'job.rollback' AND detail LIKE '%"to":1%'`).Scan(&entries))
	require.Equal(t, 1, entries)
}

// TestAPastOneOffWarns: it is saved, and the response says what missed.created does with it.
func TestAPastOneOffWarns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := func(name, at, created string) string {
		return `{"name":"` + name + `","schedule":{"at":"` + at + `"},"target":{"kind":"noop"},` +
			`"missed":{"created":"` + created + `"}}`
	}
	warning := func(a answer) string {
		t.Helper()
		require.Less(t, a.status, 300, "%s", a.body)
		all, _ := a.json(t)["warnings"].([]any)
		if len(all) == 0 {
			return ""
		}
		w := all[0].(map[string]any)
		require.Equal(t, "schedule.at", w["field"])
		require.NotEmpty(t, w["fix"])
		return w["message"].(string)
	}
	const past, future = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
	require.Contains(t, warning(b.call(http.MethodPost, "/jobs", body("once", past, "once"))), "runs now")
	require.Contains(t, warning(b.call(http.MethodPut, "/jobs/skip", body("skip", past, "skip"))), "does not run")
	require.Empty(t, warning(b.call(http.MethodPut, "/jobs/skip", body("skip", past, "skip"))), "unchanged")
	require.Empty(t, warning(b.call(http.MethodPost, "/jobs", body("later", future, "once"))))
	require.Contains(t, warning(b.call(http.MethodPatch, "/jobs/later", `{"schedule":{"at":"`+past+`"}}`,
		"Content-Type", "application/merge-patch+json")), "has passed")
	require.Less(t, b.call(http.MethodPatch, "/jobs/once", `{"schedule":{"at":"`+future+`"}}`,
		"Content-Type", "application/merge-patch+json").status, 300)
	rollback := func() string { return warning(b.call(http.MethodPost, "/jobs/once:rollback", `{"version":1}`)) }
	require.Contains(t, rollback(), "has passed")
	require.Empty(t, rollback(), "unchanged")
	bulk := b.call(http.MethodPost, "/jobs:bulk", body("bulk", past, "skip"), "Content-Type", "application/x-ndjson")
	require.Len(t, bulk.json(t)["items"].([]any)[0].(map[string]any)["warnings"], 1, "%s", bulk.body)
}

// TestATriggerForLater: the run is pending until then, and its payload can be read.
func TestATriggerForLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.make(`{"name":"a","schedule":"every 1h","target":{"kind":"noop"},"payload":{"of":"job"}}`)
	trigger := func(body string) answer { return b.call(http.MethodPost, "/jobs/a:trigger", body) }
	var at string
	require.NoError(t, b.pool.QueryRow(t.Context(),
		`SELECT to_char(now() AT TIME ZONE 'UTC' + interval '1 h', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`).Scan(&at))
	a := trigger(`{"at":"` + at + `","payload":{"of":"trigger"}}`)
	require.Equal(t, 202, a.status, "%s", a.body)
	run := a.json(t)
	require.Equal(t, "pending", run["state"])
	require.Equal(t, at, run["due_at"])
	id := run["id"].(string)
	require.NotEqual(t, at, b.call(http.MethodGet, "/jobs/a", "").json(t)["next_due_at"], "the schedule is earlier")
	require.Equal(t, 200, b.call(http.MethodPost, "/jobs/a:pause", "").status)
	require.Equal(t, at, b.call(http.MethodGet, "/jobs/a", "").json(t)["next_due_at"])
	require.Equal(t, 200, b.call(http.MethodPost, "/jobs/a:resume", "").status)
	got := b.call(http.MethodGet, "/runs/"+id, "").json(t)
	require.Equal(t, map[string]any{"of": "trigger"}, got["payload"])
	require.Equal(t, 200, b.call(http.MethodPost, "/runs/"+id+":cancel", "").status)
	again := trigger(`{"at":"` + at + `"}`).json(t)
	require.NotEqual(t, id, again["id"], "the id of a cancelled run is not used again")
	got = b.call(http.MethodGet, "/runs/"+again["id"].(string), "").json(t)
	require.Equal(t, map[string]any{"of": "job"}, got["payload"])
	for _, wrong := range []string{"2020-01-01T00:00:00Z", "2199-01-01T00:00:00Z"} {
		a := trigger(`{"at":"` + wrong + `"}`)
		require.Equal(t, 422, a.status, "%s", a.body)
		require.Equal(t, "at", a.json(t)["problems"].([]any)[0].(map[string]any)["field"])
	}
}
