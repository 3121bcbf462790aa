package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

func TestManyJobsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.make(`{"name":"taken","schedule":"every 1h","target":{"kind":"noop"}}`)
	lines := []string{
		`{"name":"one","schedule":"every 1h","target":{"kind":"noop"},"labels":{"a":"b"}}`,
		``,
		`{"name":"taken","schedule":"every 1h","target":{"kind":"noop"}}`,
		`{"name":"two","schedule":{"cron":"61 * * * *"},"target":{"kind":"noop"}}`,
		`{"name":"three","schedule":"every 1h","target":{"kind":"noop"},"nonsense":"s3cret"}`,
		`{"name":"four","schedule":"every 1h","target":{"kind":"noop"},"priority":"s3cret"}`,
		`{"name":"five","schedule":"every 1h","target":{"kind":"noop"}} {}`,
		`s3cret`,
		`{"name":"one","schedule":"every 1h","target":{"kind":"noop"}}`,
		`{"name":"six","schedule":"every 2h","target":{"kind":"http"},"queue":"other","payload":{"x":1}}`,
	}
	a := b.call("POST", "/jobs:bulk", strings.Join(lines, "\n"), "Content-Type", "application/x-ndjson")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.NotContains(t, string(a.body), "s3cret")
	got := a.json(t)
	require.EqualValues(t, 2, got["created"])
	require.EqualValues(t, 7, got["refused"])
	codes := map[int]string{}
	for _, x := range got["items"].([]any) {
		item := x.(map[string]any)
		codes[int(item["line"].(float64))] = "made"
		if p, ok := item["problem"].(map[string]any); ok {
			codes[int(item["line"].(float64))] = p["code"].(string)
		}
	}
	require.Equal(t, map[int]string{
		1: "made", 3: "conflict", 4: "invalid", 5: "invalid", 6: "invalid", 7: "bad_request", 8: "bad_request",
		9: "conflict", 10: "made",
	}, codes)
	names, _ := b.list("")
	require.Equal(t, []string{"taken", "one", "six"}, names)
	names, _ = b.list("label=a%3Db")
	require.Equal(t, []string{"one"}, names)
	six := b.call("GET", "/jobs/six", "").json(t)
	require.Equal(t, "other", six["queue"])
	require.Equal(t, map[string]any{"x": 1.}, six["payload"])
	require.NotNil(t, six["next_due_at"])
	good, _, err := b.store.VerifyAudit(t.Context(), defaultNamespace, access.AuditCheck{}, 1000)
	require.NoError(t, err)
	require.EqualValues(t, 3, good.Seq, "a key, a job, a bulk")

	require.Equal(t, 422, b.call("POST", "/jobs:bulk", "\n\n", "Content-Type", "application/x-ndjson").status)
	many := strings.Repeat("{}\n", 5001)
	require.Equal(t, 413, b.call("POST", "/jobs:bulk", many, "Content-Type", "application/x-ndjson").status)
}

// TestManyJobsAreReplaced: with existing=replace, jobs whose name is in use get the definition of their line.
func TestManyJobsAreReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.make(`{"name":"same","schedule":"every 1h","target":{"kind":"noop"}}`)
	b.make(`{"name":"other","schedule":"every 1h","target":{"kind":"noop"}}`)
	lines := []string{
		`{"name":"new","schedule":"every 1h","target":{"kind":"noop"}}`,
		`{"name":"same","schedule": "every 1h", "labels":{},"target":{"kind":"noop"}}`,
		`{"name":"other","schedule":"every 2h","target":{"kind":"noop"},"queue":"q"}`,
		`{"name":"other","schedule":"every 3h","target":{"kind":"noop"}}`,
		`{"name":"bad","schedule":"every 0s","target":{"kind":"noop"}}`,
	}
	send := func() (results []string, got map[string]any) {
		a := b.call("POST", "/jobs:bulk?existing=replace", strings.Join(lines, "\n"), "Content-Type", "application/x-ndjson")
		require.Equal(t, 200, a.status, "%s", a.body)
		got = a.json(t)
		for _, x := range got["items"].([]any) {
			results = append(results, x.(map[string]any)["result"].(string))
		}
		return results, got
	}
	results, got := send()
	require.Equal(t, []string{"created", "unchanged", "changed", "refused", "refused"}, results)
	require.Equal(t, []any{1., 1., 1., 2.}, []any{got["created"], got["changed"], got["unchanged"], got["refused"]})
	other := b.call("GET", "/jobs/other", "").json(t)
	require.Equal(t, "q", other["queue"])
	require.EqualValues(t, 2, other["version"])
	require.EqualValues(t, 1, b.call("GET", "/jobs/same", "").json(t)["version"])
	results, _ = send()
	require.Equal(t, []string{"unchanged", "unchanged", "unchanged", "refused", "refused"}, results)

	lines = []string{
		`{"name":"new","version":1,"schedule":"every 5h","target":{"kind":"noop"}}`,
		`{"name":"other","version":1,"schedule":"every 5h","target":{"kind":"noop"}}`, // it has version 2
		`{"name":"same","version":7,"schedule":"every 1h","target":{"kind":"noop"}}`,  // as it is already
		`{"name":"gone","version":3,"schedule":"every 1h","target":{"kind":"noop"}}`,  // it was deleted since
	}
	results, got = send()
	require.Equal(t, []string{"changed", "refused", "unchanged", "refused"}, results)
	require.Equal(t, 404, b.call("GET", "/jobs/gone", "").status)
	refused := got["items"].([]any)[1].(map[string]any)["problem"].(map[string]any)
	require.Contains(t, refused["detail"], "the job has version 2 and was changed since it was read")
	a := b.call("POST", "/jobs:bulk", lines[0], "Content-Type", "application/x-ndjson")
	require.Contains(t, string(a.body), "version", "a new job has none")
	require.EqualValues(t, 1, a.json(t)["refused"])

	lines = nil // of two transactions
	for i := range 1001 {
		lines = append(lines, fmt.Sprintf(`{"name":"job-%d","schedule":"every 1h","target":{"kind":"noop"}}`, i%1000))
	}
	results, _ = send()
	require.Equal(t, "refused", results[1000], "each name has one answer")
}

// TestABulkIsSentAgain: repeating a bulk does not create jobs again and returns the same response.
func TestABulkIsSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var body strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&body, `{"name":"job-%d","schedule":"every 1h","target":{"kind":"noop"}}`+"\n", i%2400)
	}
	send := func(body string) answer {
		return b.call("POST", "/jobs:bulk", body, "Content-Type", "application/x-ndjson", "Idempotency-Key", "first")
	}
	first := send(body.String())
	require.Equal(t, 200, first.status, "%s", first.body)
	require.EqualValues(t, 2400, first.json(t)["created"])
	require.EqualValues(t, 100, first.json(t)["refused"])
	again := send(body.String())
	require.Equal(t, string(first.body), string(again.body))
	require.Equal(t, 422, send(body.String()+`{"name":"more","schedule":"every 1h","target":{"kind":"noop"}}`).status)
	// As if the node had died before the last transaction.
	_, err := b.pool.Exec(t.Context(), `DELETE FROM idempotent_response WHERE part = 2`)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `DELETE FROM job WHERE substring(name FROM 5)::integer >= 2000`)
	require.NoError(t, err)
	again = send(body.String())
	require.EqualValues(t, 2400, again.json(t)["created"])
	var jobs int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM job`).Scan(&jobs))
	require.Equal(t, 2400, jobs)
}

// TestAReplacementIsSentAgain: repeating a bulk that replaces jobs does not overwrite changes made since.
func TestAReplacementIsSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.make(`{"name":"lu","schedule":"every 1h","target":{"kind":"noop"}}`)
	const body = `{"name":"lu","schedule":"every 2h","target":{"kind":"noop"}}`
	send := func(query, body string, header ...string) answer {
		return b.call("POST", "/jobs:bulk"+query, body, append(header, "Content-Type", "application/x-ndjson")...)
	}
	again := func() answer { return send("?existing=replace", body, "Idempotency-Key", "first") }
	schedule := func() any { return b.call("GET", "/jobs/lu", "").json(t)["schedule"].(map[string]any)["every"] }
	first := again()
	require.EqualValues(t, 1, first.json(t)["changed"], "%s", first.body)
	edit := b.call("PUT", "/jobs/lu", `{"name":"lu","schedule":"every 5h","target":{"kind":"noop"}}`)
	require.Equal(t, 200, edit.status, "%s", edit.body)
	require.Equal(t, string(first.body), string(again().body))
	require.Equal(t, "5h", schedule())
	require.Equal(t, 422, send("?existing=replace", body+"\n"+body, "Idempotency-Key", "first").status)
	require.Equal(t, 422, send("", body, "Idempotency-Key", "first").status)
	require.Equal(t, 422, send("?existing=replace", body, "If-Match", `"99"`).status)

	// As if the node had died before it stored the response: what it replaced was changed since.
	_, err := b.pool.Exec(t.Context(), `UPDATE idempotent_response SET body = NULL`)
	require.NoError(t, err)
	refused := again()
	require.EqualValues(t, 1, refused.json(t)["refused"], "%s", refused.body)
	require.Equal(t, "5h", schedule())
	// As if it had died before it replaced the job.
	_, err = b.pool.Exec(t.Context(), `UPDATE idempotent_response SET body = NULL, created_at = now()`)
	require.NoError(t, err)
	require.EqualValues(t, 1, again().json(t)["changed"])
	require.Equal(t, "2h", schedule())
}
