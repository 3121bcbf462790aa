package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAZeroIsNotADefault: a field that has no meaning for 0 rejects it by every way to write a job, and names the field
// and the fix. Left out, the field gets its default.
func TestAZeroIsNotADefault(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const start = `{"name":"zero","schedule":"every 1h","target":{"kind":"noop"}`
	b.make(start + `}`)
	for field, part := range map[string]string{
		"retry.max_attempts":     `"retry":{"max_attempts":0}`,
		"retry.jitter":           `"retry":{"jitter":0}`,
		"retry.base":             `"retry":{"base":"0s"}`,
		"retry.cap":              `"retry":{"cap":"0s"}`,
		"missed.max":             `"missed":{"max":0}`,
		"missed.pace":            `"missed":{"pace":"0s"}`,
		"missed.catch_up_window": `"missed":{"catch_up_window":"0s"}`,
		"concurrency.max":        `"concurrency":{"key":"k","max":0}`,
		"timeout":                `"timeout":"0s"`,
		"report_timeout":         `"report_timeout":"0s"`,
		"keep_finished_for":      `"keep_finished_for":"0s"`,
	} {
		whole := start + "," + part + "}"
		refused := func(problem any) {
			t.Helper()
			found := problem.(map[string]any)["problems"].([]any)[0].(map[string]any)
			require.Equal(t, field, found["field"])
			require.NotEmpty(t, found["problem"], field)
			require.Contains(t, found["fix"], "use ", field)
		}
		for _, a := range []answer{
			b.call(http.MethodPost, "/jobs", whole),
			b.call(http.MethodPut, "/jobs/zero", whole),
			b.call(http.MethodPatch, "/jobs/zero", `{`+part+`}`, "Content-Type", "application/merge-patch+json"),
		} {
			require.Equal(t, 422, a.status, "%s: %s", part, a.body)
			refused(a.json(t))
		}
		bulk := b.call(http.MethodPost, "/jobs:bulk", whole, "Content-Type", "application/x-ndjson").json(t)
		require.EqualValues(t, 1, bulk["refused"], part)
		refused(bulk["items"].([]any)[0].(map[string]any)["problem"])
	}
	// These zeros have a meaning.
	a := b.call(http.MethodPut, "/jobs/zero", start+`,"deadline":"0s","priority":0,"pause_after_failures":0}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.EqualValues(t, 3, a.json(t)["retry"].(map[string]any)["max_attempts"])
}
