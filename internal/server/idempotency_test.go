package server_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARequestIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const key = "Idempotency-Key"
	// Twenty requests at the same time: one creates the job, and all get the same response.
	answers := make([]answer, 20)
	var wait sync.WaitGroup
	for i := range answers {
		wait.Go(func() { answers[i] = b.call("POST", "/jobs", hourly, key, "k 1") })
	}
	wait.Wait()
	for _, a := range answers {
		require.Equal(t, 201, a.status, "%s", a.body)
		require.Equal(t, string(answers[0].body), string(a.body))
		require.Equal(t, answers[0].header.Get("Location"), a.header.Get("Location"))
		require.Regexp(t, `^"1-[0-9a-z]+"$`, a.header.Get("ETag"))
	}
	require.Equal(t, 409, b.call("POST", "/jobs", hourly, key, "k 2").status, "another key is another request")
	a := b.call("POST", "/jobs", strings.Replace(hourly, "report", "other", 1), key, "k 1")
	require.Equal(t, 422, a.status, "%s", a.body)
	require.Contains(t, string(a.body), "Idempotency-Key")
	require.Equal(t, 422, b.call("POST", "/jobs", hourly, key, strings.Repeat("x", 256)).status)

	first := b.call("POST", "/jobs/report:trigger", `{"payload":1}`, key, "t")
	require.Equal(t, 202, first.status, "%s", first.body)
	require.Equal(t, string(first.body), string(b.call("POST", "/jobs/report:trigger", `{"payload":1}`, key, "t").body))
	require.Equal(t, 422, b.call("POST", "/jobs/report:trigger", `{"payload":2}`, key, "t").status)
	require.Equal(t, 422, b.call("POST", "/jobs", hourly, key, "t").status, "nor for another operation")
	var runs int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM run WHERE seq > 0`).Scan(&runs))
	require.Equal(t, 1, runs)

	// After a day the key is free again.
	_, err := b.pool.Exec(t.Context(), `UPDATE idempotent_response SET created_at = created_at - interval '1 day'`)
	require.NoError(t, err)
	require.Equal(t, 202, b.call("POST", "/jobs/report:trigger", `{"payload":2}`, key, "t").status)
	gone, err := b.store.DropIdempotentResponses(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, gone)
	again := b.call("POST", "/jobs/report:trigger", `{"payload":1}`, key, "t")
	require.Equal(t, 422, again.status, "that is still known")
}
