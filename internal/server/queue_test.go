package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

func TestAPausedQueueStartsNothing(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	held := n.create("held", yearly, "/ok", `"queue":"slow","overlap":"allow"`)
	strict := n.create("strict", yearly, "/ok", `"queue":"slow","overlap":"queue_all"`) // admitted one by one
	free := n.create("free", yearly, "/ok")
	a := n.call("POST", "/queues/slow:pause", `{"note":"repairs"}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, true, a.json(t)["paused"])
	require.Equal(t, "repairs", a.json(t)["note"])

	// Paused before the node started: no run of the queue starts, and those of other queues do.
	n.work()
	waiting := []string{n.trigger(held), n.trigger(held), n.trigger(strict), n.trigger(strict)}
	for range 3 { // one after the other: each starts while those of the paused queue wait
		n.await("/runs/"+n.trigger(free), "state", "succeeded")
	}
	for _, run := range waiting {
		require.Equal(t, "due", n.get("/runs/" + run)["state"])
	}
	require.Equal(t, "queue_paused", n.why(held, n.get("/runs/" + waiting[0])["due_at"].(string))[0]["code"])
	require.Equal(t, 200, n.call("POST", "/runs/"+waiting[3]+":cancel", "").status)

	a = n.call("POST", "/queues/slow:resume", "")
	require.Equal(t, 200, a.status)
	require.Equal(t, false, a.json(t)["paused"])
	require.Nil(t, a.json(t)["note"])
	for _, run := range waiting[:3] {
		n.await("/runs/"+run, "state", "succeeded")
	}
	require.Equal(t, "cancelled", n.get("/runs/" + waiting[3])["state"])

	// Paused while the node works: takes effect within about a second.
	require.Equal(t, 200, n.call("POST", "/queues/slow:pause", "").status)
	require.Eventually(t, func() bool {
		run := n.trigger(held)
		n.await("/runs/"+n.trigger(free), "state", "succeeded") // created later, so claimed later
		return n.get("/runs/" + run)["state"] == "due"
	}, time.Minute, 10*time.Millisecond, "it still starts")
}

func TestQueues(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	for _, queue := range []string{"a", "b", "c"} {
		n.create("job-"+queue, yearly, "/ok", `"queue":"`+queue+`"`)
	}
	items, pages := n.all("/queues?page_size=2")
	require.Len(t, items, 3)
	require.Equal(t, 2, pages)
	require.Equal(t, "a", n.get("/queues/a")["name"])
	require.Equal(t, 404, n.call("GET", "/queues/none", "").status)
	require.Equal(t, 404, n.call("POST", "/queues/none:pause", "").status)
	require.Equal(t, 403, n.callAs(n.newKey(defaultNamespace, access.Viewer), "POST", "/queues/a:pause", "").status)
	other := n.newKey(n.otherNamespace(), access.Admin)
	require.Equal(t, 404, n.callAs(other, "POST", "/queues/a:pause", "").status)
	require.Empty(t, n.callAs(other, "GET", "/queues", "").json(t)["items"])
}

func TestCluster(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	got := n.get("/cluster")
	nodes := got["nodes"].([]any)
	require.Len(t, nodes, 1)
	node := nodes[0].(map[string]any)
	require.Equal(t, "node one", node["name"])
	require.Len(t, node["partitions"], job.Partitions)
	require.Empty(t, got["unowned"])
	var version int64
	require.NoError(t, n.pool.QueryRow(t.Context(), `SELECT max(version_id) FROM belfry_migration`).Scan(&version))
	require.EqualValues(t, version, got["schema_version"])
	now := time.Now() //nolint:forbidigo // the clocks of one machine
	require.WithinDuration(t, now, timeOf(t, got["database_time"]), time.Minute)

	n.exec(`UPDATE session SET expires_at = now()`)
	require.Eventually(t, func() bool { // a response may be a second old
		got = n.get("/cluster")
		return len(got["nodes"].([]any)) == 0
	}, time.Minute, 50*time.Millisecond)
	require.Len(t, got["unowned"], job.Partitions)
	require.NotContains(t, got["owners"].([]any)[0], "node")
}

func TestAudit(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	id := n.create("report", yearly, "/ok")
	run := n.trigger(id)
	require.Equal(t, 200, n.call("POST", "/runs/"+run+":cancel", "").status)
	require.Equal(t, 202, n.call("POST", "/dead-letters:discard", `{"all":true}`).status)
	require.Equal(t, 200, n.call("POST", "/queues/default:pause", "").status)
	items, pages := n.all("/audit?page_size=2")
	require.Equal(t, 3, pages)
	var actions []any
	for _, i := range items {
		actions = append(actions, i["action"])
	}
	require.Equal(t, []any{
		"queue.pause", "operation.begin", "run.cancel", "job.trigger", "job.create", "key.create",
	}, actions)
	require.Equal(t, run, items[2]["object"])
	require.Regexp(t, `^key:test \[key_[0-9a-z]{26}\]$`, items[2]["actor"])
	require.Equal(t, 403, n.callAs(n.newKey(defaultNamespace, access.Editor), "GET", "/audit", "").status)

	got := n.get("/audit:verify")
	require.Equal(t, true, got["ok"])
	require.EqualValues(t, 7, got["entries"])
	n.exec(`UPDATE audit_log SET actor = 'nobody' WHERE seq = 3`)
	got = n.get("/audit:verify")
	require.Equal(t, false, got["ok"])
	require.EqualValues(t, 2, got["entries"])
	require.Contains(t, got["problem"], "entry 3")
}

func TestALimitedQueueSaysWhyRunsWait(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	a := n.call("POST", "/queues", `{"name":"narrow","max_running":2,"rate":"100/s"}`)
	require.Equal(t, 201, a.status, "%s", a.body)
	require.Equal(t, map[string]any{"max_running": 2., "rate": "100/s", "running": 0., "waiting": 0.},
		pick(a.json(t), "max_running", "rate", "burst", "running", "waiting"))
	require.Equal(t, 409, n.call("POST", "/queues", `{"name":"narrow"}`).status)
	require.Equal(t, 404, n.call("PUT", "/queues/none", `{"max_running":2}`).status)
	for body, field := range map[string]string{
		`{"rate":"fast"}`: "rate", `{"burst":4}`: "burst", `{"max_running":-1}`: "max_running",
	} {
		a := n.call("PUT", "/queues/narrow", body)
		require.Equal(t, 422, a.status, "%s", a.body)
		require.Contains(t, string(a.body), field)
	}
	require.Contains(t, string(n.call("POST", "/queues", `{"name":"No!"}`).body), "is not a queue name")
	require.Equal(t, 403, n.callAs(n.newKey(defaultNamespace, access.Operator), "PUT", "/queues/narrow", `{}`).status)

	slow := n.create("slow", yearly, "/hang",
		`"queue":"narrow","timeout":"1h","overlap":"allow","concurrency":{"key":"customer-42","max":5}`)
	require.Equal(t, map[string]any{"key": "customer-42", "max": 5.}, n.get("/jobs/slow")["concurrency"])
	keyed := n.create("keyed", yearly, "/ok", `"concurrency":{"key":"customer-42"}`)
	n.work()
	n.await("/runs/"+n.trigger(slow), "state", "running")
	n.await("/runs/"+n.trigger(slow), "state", "running")
	waits := func(job, run, code, text string) {
		var story map[string]any
		require.Eventually(t, func() bool {
			story = n.why(job, n.get("/runs/" + run)["due_at"].(string))[0]
			return story["code"] == code
		}, time.Minute, 20*time.Millisecond, "%v", &story)
		require.Contains(t, story["text"], text)
	}
	waiting, behind := n.trigger(slow), n.trigger(keyed)
	waits(slow, waiting, "queue_full", "waits for a permit of queue narrow: 2 of 2 running")
	waits(keyed, behind, "key_full", `waits for concurrency key "customer-42": 2 of 1 running`)
	n.await("/queues/narrow", "waiting", 1.)
	require.EqualValues(t, 2, n.get("/queues/narrow")["running"])

	// Without limits the runs start, and the response has no limits.
	a = n.call("PUT", "/queues/narrow", `{}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Empty(t, pick(a.json(t), "max_running", "rate", "burst", "running", "waiting"))
	n.await("/runs/"+waiting, "state", "running")
	close(n.release)
	n.await("/runs/"+behind, "state", "succeeded")
}

// pick returns the named fields that exist.
func pick(from map[string]any, fields ...string) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		if v, ok := from[f]; ok {
			out[f] = v
		}
	}
	return out
}
