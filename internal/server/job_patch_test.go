package server_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAJobIsPatched(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.make(`{"name":"report","schedule":{"cron":"0 * * * *","timezone":"Europe/Berlin"},
		"target":{"kind":"http","config":{"url":"https://example.com/<a>","method":"PUT"}},
		"payload":{"a": [1,  2], "b":{"c":1,"d":2}},"queue":"slow","labels":{"team":"x","env":"prod"},
		"retry":{"max_attempts":7,"base":"9s"}}`)
	patch := func(body string, header ...string) answer {
		header = append([]string{"Content-Type", "application/merge-patch+json"}, header...)
		return b.call("PATCH", "/jobs/report", body, header...)
	}
	payload := func() (text string) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT payload FROM job`).Scan(&text))
		return text
	}
	before := payload()
	a := patch(`{"labels":{"env":null,"new":"y"},"queue":null,"retry":{"base":"2s"},
		"schedule":{"timezone":"Asia/Tokyo"}}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Regexp(t, `^"2-[0-9a-z]+"$`, a.header.Get("ETag"))
	got := a.json(t)
	require.Equal(t, map[string]any{"team": "x", "new": "y"}, got["labels"])
	require.Equal(t, "default", got["queue"])
	require.Equal(t, map[string]any{"cron": "0 * * * *", "timezone": "Asia/Tokyo"}, got["schedule"])
	require.EqualValues(t, 7, got["retry"].(map[string]any)["max_attempts"])
	require.Equal(t, "2s", got["retry"].(map[string]any)["base"])
	require.Equal(t, before, payload(), "what is not patched stays to the byte")
	require.Equal(t, got["next_due_at"], b.call("GET", "/jobs/report", "").json(t)["next_due_at"])

	a = patch(`{"payload":{"b":{"c":null}},"schedule":"every 15m","target":{"config":{"method":null}}}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.JSONEq(t, `{"a":[1,2],"b":{"d":2}}`, payload())
	require.Equal(t, map[string]any{"every": "15m"}, a.json(t)["schedule"])
	require.Equal(t, map[string]any{"url": "https://example.com/<a>"}, a.json(t)["target"].(map[string]any)["config"])

	for body, status := range map[string]int{
		`[]`: 400, `{`: 400, `null`: 400,
		`{"schedule":null}`: 422, `{"nonsense":1}`: 422, `{"priority":10}`: 422,
		`{"schedule":{"cron":"* * * * *"}}`: 422,
	} {
		require.Equal(t, status, patch(body).status, body)
	}
	require.Equal(t, 412, patch(`{"priority":1}`, "If-Match", `"2"`).status)
	require.Equal(t, 200, patch(`{"priority":1}`, "If-Match", `"3"`).status)
	b.make(`{"name":"other","schedule":"every 1h","target":{"kind":"noop"}}`)
	require.Equal(t, 409, patch(`{"name":"other"}`).status)

	// Patches of different fields at the same time: none is lost.
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			a := patch(fmt.Sprintf(`{"labels":{"l%d":"v"}}`, i))
			if a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wait.Wait()
	require.Len(t, b.call("GET", "/jobs/report", "").json(t)["labels"], 2+8)
}

// TestThePatchIsDescribed: the description of a patch has the fields that create takes, all optional.
func TestThePatchIsDescribed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	api := b.call("GET", "/openapi.json", "").json(t)
	at := func(v any, path ...string) any {
		for _, key := range path {
			v = v.(map[string]any)[key]
		}
		return v
	}
	for _, kind := range []string{"application/merge-patch+json", "application/json"} {
		schema := at(api, "paths", "/api/v1/jobs/{job}", "patch", "requestBody", "content", kind, "schema")
		require.Equal(t, map[string]any{"$ref": "#/components/schemas/JobPatch"}, schema)
	}
	patch := at(api, "components", "schemas", "JobPatch").(map[string]any)
	require.Equal(t, "object", patch["type"])
	require.NotContains(t, patch, "required")
	for name := range at(api, "components", "schemas", "JobInput", "properties").(map[string]any) {
		require.Contains(t, patch["properties"], name)
	}
	require.Equal(t, []any{"string", "null"}, at(patch, "properties", "queue", "type"))
	require.Equal(t, "string", at(patch, "properties", "name", "type"), "a job has a name")
	require.Equal(t, []any{"string", "null"}, at(patch, "properties", "labels", "additionalProperties", "type"))
}
