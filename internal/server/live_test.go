package server_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

func (n *node) workerJob(name, queue, handler string) string {
	n.t.Helper()
	a := n.call("POST", "/jobs", `{"name":"`+name+`","queue":"`+queue+`","schedule":{"cron":"0 0 1 1 *"},`+
		`"target":{"kind":"worker","config":{"handler":"`+handler+`"}},"overlap":"allow"}`)
	require.Equal(n.t, 201, a.status, "%s", a.body)
	return a.json(n.t)["id"].(string)
}

// counts waits until the counts of a queue are as wanted: a response may be a second old.
func (n *node) counts(queue string, want map[string]any) map[string]any {
	n.t.Helper()
	var got map[string]any
	require.Eventually(n.t, func() bool {
		a := n.call("GET", "/queues/"+queue+"?include=counts", "")
		if a.status == 503 {
			return false // on a busy machine the count may take too long
		}
		got = a.json(n.t)["counts"].(map[string]any)
		for field, value := range want {
			if got[field] != value {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond, "%v", &got)
	return got
}

// TestQueueCounts: what is due, what runs, and which handler has no worker, for a queue without limits.
func TestQueueCounts(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	invoice := n.workerJob("invoice", "work", "invoice")
	n.workerJob("idle", "work", "idle")
	n.trigger(invoice)
	n.trigger(invoice)
	require.Nil(t, n.get("/queues/work")["counts"], "only if they are asked for")
	got := n.counts("work", map[string]any{"due": 2.})
	require.Equal(t, []any{"invoice"}, got["handlers_without_worker"], "not that of a job that is not due")
	require.EqualValues(t, 0, got["workers"])
	require.Equal(t, false, got["more"])
	require.WithinDuration(t, timeOf(t, n.get("/cluster")["database_time"]), timeOf(t, got["oldest_due_at"]), time.Minute)

	// A worker that has not claimed yet may be about to.
	ctx := t.Context()
	w, _, err := n.store.OpenSession(ctx, job.SessionParams{
		Namespace: defaultNamespace, Queue: "work", Name: "w-1", TTL: time.Hour, Slots: 7,
	})
	require.NoError(t, err)
	require.Empty(t, n.counts("work", map[string]any{"workers": 1.})["handlers_without_worker"])
	require.NoError(t, n.store.NoteHandlers(ctx, w, []string{"other"}))
	require.Eventually(t, func() bool {
		return len(n.counts("work", nil)["handlers_without_worker"].([]any)) == 1
	}, time.Minute, 50*time.Millisecond, "it asks for others only")
	require.NoError(t, n.store.NoteHandlers(ctx, w, []string{"invoice", "other"}))
	require.Eventually(t, func() bool {
		return len(n.counts("work", nil)["handlers_without_worker"].([]any)) == 0
	}, time.Minute, 50*time.Millisecond)

	n.exec(`UPDATE run SET state = 1, session_id = $1 WHERE due_at = (SELECT min(due_at) FROM run)`, w.ID)
	n.counts("work", map[string]any{"due": 1., "running": 1.})
	viewer := n.newKey(defaultNamespace, access.Viewer)
	counted := func(path string) (a answer) { // on a busy machine the count may take too long
		require.Eventually(t, func() bool { a = n.callAs(viewer, "GET", path, ""); return a.status != 503 },
			time.Minute, 50*time.Millisecond)
		require.Equal(t, 200, a.status, "%s: %s", path, a.body)
		return a
	}
	queue := counted("/queues?include=counts").json(t)["items"].([]any)[0].(map[string]any)
	require.EqualValues(t, 1, queue["counts"].(map[string]any)["running"])

	// The worker, and what it has.
	items, _ := n.all("/queues/work/sessions")
	require.Len(t, items, 1)
	require.Equal(t, map[string]any{
		"id": job.FormatSessionID(w.ID), "worker": "w-1", "handlers": []any{"invoice", "other"}, "slots": 7.,
		"running": 1., "running_more": false, "silent": false,
	}, pick(items[0], "id", "worker", "handlers", "slots", "running", "running_more", "silent"))
	n.exec(`
UPDATE session SET renewed_at = now() - interval '50 min', expires_at = now() + interval '10 min' WHERE id = $1`, w.ID)
	items, _ = n.all("/queues/work/sessions")
	require.Equal(t, true, items[0]["silent"])
	require.NoError(t, n.store.EndSession(ctx, w))
	items, _ = n.all("/queues/work/sessions")
	require.Empty(t, items)

	require.Equal(t, 404, n.call("GET", "/queues/none/sessions", "").status)
	other := n.newKey(n.otherNamespace(), access.Admin)
	require.Equal(t, 404, n.callAs(other, "GET", "/queues/work/sessions", "").status)
	require.Equal(t, 422, n.call("GET", "/queues?include=everything", "").status)
	for _, path := range []string{"/queues/work/sessions", "/queues?include=counts", "/cluster", "/schedules:broken"} {
		counted(path)
	}
}

// TestClusterSaysWhoIsLate: a run that nothing keeps from starting makes its partition late, and others do not.
func TestClusterSaysWhoIsLate(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.exec(`UPDATE session SET info = '{"version":"v9","zones":"abc","keep_history":"720h0m0s"}', slots = 20, slots_free = 13`)
	late := func() (out []int) {
		for p, o := range n.get("/cluster")["owners"].([]any) {
			if o.(map[string]any)["oldest_due_at"] != nil {
				out = append(out, p)
			}
		}
		return out
	}
	got := n.get("/cluster")
	require.Equal(t, map[string]any{
		"version": "v9", "tzdata": "abc", "slots": 20., "slots_free": 13., "keep_history": "720h0m0s",
	}, pick(got["nodes"].([]any)[0].(map[string]any), "version", "tzdata", "slots", "slots_free", "keep_history", "look_ahead"))
	require.Len(t, got["owners"], job.Partitions)
	require.Equal(t, map[string]any{"node": 0., "epoch": 1.}, got["owners"].([]any)[0])
	require.Equal(t, false, got["clock_in_doubt"])
	require.NotEmpty(t, got["database"].(map[string]any)["version"])
	require.Positive(t, got["database"].(map[string]any)["max_connections"])

	n.trigger(n.workerJob("pulled", "work", "invoice"))
	held := n.create("held", yearly, "/ok", `"queue":"slow"`)
	require.Equal(t, 200, n.call("POST", "/queues/slow:pause", "").status)
	n.trigger(held)
	require.Empty(t, late(), "one waits for a worker, the other for its queue")
	id, err := job.ParseJobID(n.create("stuck", yearly, "/ok"))
	require.NoError(t, err)
	n.trigger(job.FormatJobID(id)) // no engine runs
	require.Eventually(t, func() bool { return len(late()) == 1 }, time.Minute, 50*time.Millisecond)
	require.Equal(t, []int{int(job.PartitionOf(id))}, late())

	// Nodes plan ahead: a cursor whose time has passed was not planned.
	n.exec(`UPDATE cursor SET next_due_at = now() - interval '1 min' WHERE partition = $1`, job.PartitionOf(id))
	require.Eventually(t, func() bool {
		c := n.get("/cluster")
		oldest := c["owners"].([]any)[job.PartitionOf(id)].(map[string]any)["oldest_due_at"]
		return timeOf(t, c["database_time"]).Sub(timeOf(t, oldest)) > 50*time.Second
	}, time.Minute, 50*time.Millisecond)
}

func TestBrokenSchedules(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	require.Equal(t, map[string]any{"items": []any{}, "partial": false}, n.get("/schedules:broken"))
	id := n.create("report", yearly, "/ok")
	n.exec(`UPDATE cursor SET broken_at = now(), retry_at = now() + interval '1 min', problem = 'unknown field x'`)
	items := n.get("/schedules:broken")["items"].([]any)
	require.Len(t, items, 1)
	got := items[0].(map[string]any)
	require.Equal(t, "unknown field x", got["problem"])
	require.EqualValues(t, 1, got["jobs"])
	require.Equal(t, []any{map[string]any{"job": id, "name": "report"}}, got["sample"])
	require.NotEmpty(t, got["schedule"])
	other := n.newKey(n.otherNamespace(), access.Admin)
	require.Empty(t, n.callAs(other, "GET", "/schedules:broken", "").json(t)["items"])
}

// TestAuditFilters: each filter finds exactly its entries, alone and together, page by page.
func TestAuditFilters(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	ci, secret, err := n.store.CreateKey(t.Context(), access.KeyParams{
		Namespace: defaultNamespace, Name: "ci", Role: access.Admin, Actor: "test",
	})
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c"} {
		n.create(name, yearly, "/ok")
		require.Equal(t, 200, n.callAs(secret, "POST", "/jobs/"+name+":pause", "").status)
	}
	n.create("ci-2", yearly, "/ok")
	a := n.get("/jobs/a")["id"].(string)
	list := func(filter string) (out []string) {
		items, _ := n.all("/audit?page_size=2&" + filter)
		for _, i := range items {
			out = append(out, i["action"].(string)+" "+strings.TrimPrefix(i["object"].(string), a))
		}
		return out
	}
	require.Len(t, list("actor=ci"), 3)
	require.Len(t, list("actor="+access.FormatKeyID(ci.ID)), 3)
	require.Len(t, list("actor="+url.QueryEscape("key:ci ["+access.FormatKeyID(ci.ID)+"]")), 3)
	require.Empty(t, list("actor=c"), "a part of a name is no name")
	require.Empty(t, list("actor=key_06f8m2tq5dtk1e7n9q0c3s5v7g"))
	require.Len(t, list("action=job.pause"), 3)
	require.Len(t, list("action=job"), 7)
	require.Empty(t, list("action=jo"))
	require.Equal(t, []string{"job.pause ", "job.create "}, list("object="+a))
	require.Equal(t, []string{"job.pause "}, list("actor=ci&action=job&object="+a))
	require.Empty(t, list("actor=ci&action=job.create"))

	n.exec(`UPDATE audit_log SET at = '2026-01-01T00:00:00Z'::timestamptz + seq * interval '1 hour'`)
	all, _ := n.all("/audit")
	count := len(all)
	require.Len(t, list("from=2026-01-01T04:00:00Z"), count-3)
	require.Len(t, list("to=2026-01-01T04:00:00Z"), 3)
	require.Len(t, list("from=2026-01-01T02:00:00Z&to=2026-01-01T04:00:00Z"), 2)
	require.Empty(t, list("from=2027-01-01T00:00:00Z"))
	require.Empty(t, list("to=2025-01-01T00:00:00Z"))
	require.Equal(t, 403, n.callAs(n.newKey(defaultNamespace, access.Editor), "GET", "/audit?actor=ci", "").status)
	other := n.newKey(n.otherNamespace(), access.Admin)
	require.Empty(t, n.callAs(other, "GET", "/audit?actor=ci", "").json(t)["items"])
}
