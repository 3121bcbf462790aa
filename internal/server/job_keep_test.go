package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAJobSaysHowLongItsRunsAreKept: by every way to write a job.
func TestAJobSaysHowLongItsRunsAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const start = `{"name":"kept","schedule":"every 1h","target":{"kind":"noop"}`
	kept := func(a answer) map[string]any {
		t.Helper()
		require.Less(t, a.status, 300, a.body)
		return pick(a.json(t), "keep_history", "keep_failures")
	}
	patch := func(body string) answer {
		return b.call(http.MethodPatch, "/jobs/kept", body, "Content-Type", "application/merge-patch+json")
	}
	want := map[string]any{"keep_history": "365d", "keep_failures": 10.}
	require.Equal(t, want, kept(b.call(http.MethodPost, "/jobs", start+`,"keep_history":"365d","keep_failures":10}`)))
	require.Equal(t, want, kept(b.call(http.MethodGet, "/jobs/kept", "")))
	want["keep_failures"] = 1000.
	require.Equal(t, want, kept(patch(`{"keep_failures":1000}`)))
	for part, says := range map[string]string{
		`"keep_history":"23h"`:   "use 1d to 3660d",
		`"keep_history":"3661d"`: "use 1d to 3660d",
		`"keep_failures":1001`:   "1000",
		`"keep_failures":-1`:     "0",
	} {
		for _, a := range []answer{b.call(http.MethodPut, "/jobs/kept", start+","+part+"}"), patch(`{` + part + `}`)} {
			require.Equal(t, 422, a.status, part)
			require.Contains(t, string(a.body), says, part)
		}
	}
	require.Equal(t, want, kept(b.call(http.MethodGet, "/jobs/kept", "")))
	require.Equal(t, map[string]any{}, kept(patch(`{"keep_failures":null,"keep_history":null}`)))
	var none bool
	require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT keep_history IS NULL AND keep_failures IS NULL FROM job WHERE name = 'kept'`).Scan(&none))
	require.True(t, none)
}
