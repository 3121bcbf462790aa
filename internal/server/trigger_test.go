package server_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// triggerWith triggers a job with a body and returns the id of the run.
func (n *node) triggerWith(id, body string) string {
	n.t.Helper()
	a := n.call("POST", "/jobs/"+id+":trigger", body)
	require.Equal(n.t, 202, a.status, "%s", a.body)
	return a.json(n.t)["id"].(string)
}

// TestTriggeredRunsWaitForEachOther: a trigger is a request, so overlap never drops it, however the request is sent.
func TestTriggeredRunsWaitForEachOther(t *testing.T) {
	t.Parallel()
	for _, overlap := range []string{"skip", "queue", "queue_all"} {
		t.Run(overlap, func(t *testing.T) {
			t.Parallel()
			n := setupNode(t)
			n.work()
			id := n.create("adhoc", yearly, "/hang", `"overlap":"`+overlap+`"`)
			var runs []string
			for _, payload := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`} {
				runs = append(runs, n.triggerWith(id, `{"payload":`+payload+`}`))
				n.await("/runs/"+runs[0], "state", "running")
			}
			n.finish(n.begin("/jobs:trigger", `{"filter":{"name":"adhoc"}}`))
			n.awaitCount("/jobs/"+id+"/runs?state=due", 3)
			require.Len(t, n.keys(), 1, "one at a time")
			close(n.release)
			n.awaitCount("/jobs/"+id+"/runs?state=succeeded", 4)
			got := n.bodies()
			slices.Sort(got)
			require.Equal(t, []string{"", `{"n":1}`, `{"n":2}`, `{"n":3}`}, got)
		})
	}
}

// TestATriggerReplaces: with overlap replace the newest run wins, also if it was triggered.
func TestATriggerReplaces(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	id := n.create("newest", yearly, "/hang", `"overlap":"replace"`)
	first := n.triggerWith(id, `{"payload":1}`)
	n.await("/runs/"+first, "state", "running")
	second := n.triggerWith(id, `{"payload":2}`)
	require.Equal(t, "replaced", n.await("/runs/"+first, "state", "cancelled")["reason"])
	n.await("/runs/"+second, "state", "running")
	close(n.release)
	n.await("/runs/"+second, "state", "succeeded")
}

// TestATriggerIfIdle: the request can refuse to wait. A refused request leaves its Idempotency-Key free.
func TestATriggerIfIdle(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	id := n.create("adhoc", yearly, "/hang")
	later := n.triggerWith(id, `{"at":"`+n.in(time.Hour)+`"}`)
	first := n.triggerWith(id, `{"if_idle":true}`)
	n.await("/runs/"+first, "state", "running")
	again := func() answer {
		return n.call("POST", "/jobs/"+id+":trigger", `{"if_idle":true}`, "Idempotency-Key", "order-77")
	}
	a := again()
	require.Equal(t, 409, a.status, "%s", a.body)
	require.Contains(t, a.json(t)["detail"], first)
	require.Equal(t, 422, n.call("POST", "/jobs/"+id+":trigger",
		`{"if_idle":true,"at":"`+n.in(time.Hour)+`"}`).status)
	close(n.release)
	n.await("/runs/"+first, "state", "succeeded")
	a = again()
	require.Equal(t, 202, a.status, "%s", a.body)
	require.NotEqual(t, later, a.json(t)["id"])
}
