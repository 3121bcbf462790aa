package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
)

// attention returns the items of an overview by code.
func attention(o map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, item := range o["attention"].([]any) {
		item := item.(map[string]any)
		out[item["code"].(string)] = item
	}
	return out
}

// awaitOverview waits for a snapshot that is as it should be.
func (n *node) awaitOverview(ok func(o map[string]any) bool) (o map[string]any) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		o = n.get("/overview")
		return ok(o)
	}, time.Minute, 50*time.Millisecond, "%v", &o)
	return o
}

// completeOverview reports whether all live runs were read. The time for that is limited, and a machine may be busy.
func completeOverview(o map[string]any) bool { return o["late"].(map[string]any)["more"] == false }

func TestOverviewOfAQuietNamespace(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	viewer := n.newKey(defaultNamespace, access.Viewer)
	n.awaitOverview(completeOverview)
	a := n.callAs(viewer, "GET", "/overview", "")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	o := a.json(t)
	require.Zero(t, o["late"].(map[string]any)["runs"])
	require.Empty(t, o["attention"])
	require.Len(t, o["minutes"], 60)
	require.EqualValues(t, 0, o["unowned"])
	a = n.callAs(viewer, "GET", "/overview", "", "If-None-Match", a.header.Get("ETag"))
	require.Contains(t, []int{200, 304}, a.status, "200 if a minute ended meanwhile")
}

// TestOverviewTellsTheTruth: each thing that needs someone is in the overview of its namespace, and in no other.
func TestOverviewTellsTheTruth(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	exec := func(sql string) {
		t.Helper()
		_, err := n.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	n.create("held", yearly, "/ok", `"queue":"held","overlap":"allow"`)
	a := n.call("POST", "/jobs",
		`{"name":"pulled","schedule":"every 24h","queue":"idle","target":{"kind":"worker","config":{"handler":"x"}}}`)
	require.Equal(t, 201, a.status, "%s", a.body)
	require.Equal(t, 200, n.call("POST", "/queues/held:pause", `{"note":"x"}`).status)
	// No engine works here, so each of them is late.
	exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
			queue_id, needs_sweep, handler)
		SELECT partition, g, 1, id, now() - g * interval '3 s', now() - g * interval '3 s', 0, 0, 0, 1, 0, queue_id, false,
		       handler
		FROM job, generate_series(1, 4) g`)
	exec(`UPDATE cursor SET broken_at = now(), problem = 'x' WHERE id = (SELECT cursor_id FROM job WHERE name = 'held')`)
	exec(`INSERT INTO audit_finding SELECT partition, id, now(), 'missing', namespace_id, now() FROM job LIMIT 1`)
	exec(`UPDATE partition SET owner = NULL WHERE id < 3`)
	exec(`UPDATE cluster SET held_until = '2026-03-08T15:00:00Z'`)
	exec(`INSERT INTO dead_letter (partition, job_id, due_at, seq, queue_id, failed_at, attempt, reason, message,
			status, cause)
		SELECT partition, id, now(), 0, queue_id, now(), 1, 'attempts', 'x', 500, 'attempts-500' FROM job`)
	exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
			status, queue_id, reason, message)
		SELECT partition, g, 1, id, now(), now(), now() - g * interval '1 s', 2, 1, 0, 500, queue_id, 'attempts', 'm' || g
		FROM job, generate_series(1, 3) g WHERE name = 'held'
		UNION ALL SELECT partition, 0, 1, id, now(), now(), now(), 4, 0, 0, 0, queue_id, 'overlap', NULL FROM job`)
	exec(`UPDATE job SET state = 2 WHERE name = 'pulled'`)

	o := n.awaitOverview(func(o map[string]any) bool { return o["broken"].(float64) == 1 && completeOverview(o) })
	late := o["late"].(map[string]any)
	require.EqualValues(t, 8, late["runs"])
	require.Equal(t, false, late["more"])
	require.Less(t, timeOf(t, late["oldest_due_at"]), timeOf(t, o["now"]).Add(-11*time.Second))
	require.Equal(t, map[string]any{"count": 2., "more": false}, o["dead_letters"])
	require.Equal(t, map[string]any{"jobs": 1., "queues": 1., "more": false}, o["paused"])
	require.EqualValues(t, 3, o["unowned"])
	require.EqualValues(t, 1, o["audit"].(map[string]any)["missing"])
	require.Equal(t, []any{map[string]any{"reason": "overlap", "count": 2.}}, o["skipped_1h"])
	failing := o["failing"].([]any)
	require.Len(t, failing, 1)
	require.Equal(t, "held", failing[0].(map[string]any)["job_name"])
	require.EqualValues(t, 3, failing[0].(map[string]any)["failed_1h"])
	require.Equal(t, "m1", failing[0].(map[string]any)["message"], "the last one")
	recent := failing[0].(map[string]any)["recent"].([]any)
	require.Contains(t, recent, map[string]any{"state": "failed", "reason": "attempts"})
	require.Contains(t, recent, map[string]any{"state": "skipped", "reason": "overlap"})

	items := attention(o)
	require.Len(t, items, 7)
	require.Equal(t, "2 dead letters share one cause: x", items["dead_letters"]["text"])
	require.NotEmpty(t, items["dead_letters"]["cause"])
	require.Regexp(t, `^Queue held is paused since .* UTC: 4 due runs wait\.$`, items["queue_paused"]["text"])
	require.Equal(t, "held", items["queue_paused"]["queue"])
	require.Equal(t, "No worker asks for runs of queue idle: 4 due runs wait.", items["no_worker"]["text"])
	require.EqualValues(t, 3, items["partitions_unowned"]["count"])
	require.Equal(t, "2026-03-08T15:00:00Z", items["restore_held"]["since"])
	require.Contains(t, items, "schedules_broken")
	require.Contains(t, items, "audit_findings")

	other := n.newKey(n.otherNamespace(), access.Admin)
	theirs := n.callAs(other, "GET", "/overview", "").json(t)
	require.EqualValues(t, 0, theirs["late"].(map[string]any)["runs"])
	require.EqualValues(t, 0, theirs["dead_letters"].(map[string]any)["count"])
	require.Empty(t, theirs["failing"])
	require.Equal(t, []string{"partitions_unowned", "restore_held"}, codes(theirs), "they concern all")

	// A worker comes, and the queue is resumed.
	require.Equal(t, 201, n.openSession("idle"))
	require.Equal(t, 200, n.call("POST", "/queues/held:resume", "").status)
	o = n.awaitOverview(func(o map[string]any) bool { return len(attention(o)) == 5 })
	require.EqualValues(t, 8, o["late"].(map[string]any)["runs"], "they have not started all the same")
}

func codes(o map[string]any) (out []string) {
	for _, item := range o["attention"].([]any) {
		out = append(out, item.(map[string]any)["code"].(string))
	}
	return out
}

// openSession registers a worker of a queue in the database.
func (n *node) openSession(queue string) int {
	n.t.Helper()
	tag, err := n.pool.Exec(n.t.Context(), `INSERT INTO session (id, name, namespace_id, queue_id, started_at, expires_at)
		SELECT gen_random_uuid(), 'w', namespace_id, id, now(), now() + interval '1 h' FROM queue WHERE name = $1`, queue)
	require.NoError(n.t, err)
	return 200 + int(tag.RowsAffected())
}

// TestAForgottenRunIsLate: a run that no node knows of is in the overview as soon as it has been due for 3 seconds. It
// is judged by the clock of the database alone.
func TestAForgottenRunIsLate(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.create("forgotten", yearly, "/ok")
	_, err := n.pool.Exec(t.Context(), `INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt,
			priority, origin, admit, queue_id, needs_sweep)
		SELECT partition, 1, 1, id, now(), now(), 0, 0, 0, 1, 0, queue_id, false FROM job`)
	require.NoError(t, err)
	for {
		var before time.Duration // how long it had been due before the request
		require.NoError(t, n.pool.QueryRow(t.Context(), `SELECT now() - run_at FROM run`).Scan(&before))
		late := n.get("/overview")["late"].(map[string]any)
		if late["runs"].(float64) == 1 {
			break
		}
		if late["more"] == true { // a busy machine did not read all runs in time
			require.LessOrEqual(t, before, clocktest.Allow(time.Minute))
			continue
		}
		require.LessOrEqual(t, before, 3*time.Second, "0 late, and a run has been due for %s", before)
	}
}

// TestDueSoonIsFiveMinutes: in any five minutes there are five full minutes, whatever the second at which they begin.
func TestDueSoonIsFiveMinutes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.call("POST", "/jobs",
		`{"name":"each-minute","schedule":"* * * * *","target":{"kind":"http","config":{"url":"https://example.com"}}}`)
	require.Equal(t, 201, a.status, "%s", a.body)
	o := b.call("GET", "/overview", "").json(t)
	require.EqualValues(t, 5, o["due_next_5m"])
	require.Equal(t, true, o["due_next_5m_exact"])
}
