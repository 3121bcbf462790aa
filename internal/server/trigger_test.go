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
			id := n.create("adhoc", yearly, "/hang", `"timeout":"1h","overlap":"`+overlap+`"`)
			var runs []string
			for _, payload := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`} {
				runs = append(runs, n.triggerWith(id, `{"payload":`+payload+`}`))
				n.await("/runs/"+runs[0], "state", "running")
				n.awaitSent(1)
			}
			n.finish(n.begin("/jobs:trigger", `{"filter":{"name":"adhoc"}}`))
			n.awaitCount("/jobs/"+id+"/runs?state=due", 3)
			// The node has to find them and to decide about them while the first one runs.
			require.Never(t, func() bool {
				skipped, _ := n.all("/jobs/" + id + "/runs?state=skipped")
				return len(skipped) > 0
			}, 3*time.Second, 100*time.Millisecond, "a trigger is not skipped")
			require.Len(t, n.keys(), 1, "one at a time")
			close(n.release)
			n.awaitCount("/jobs/"+id+"/runs?state=succeeded", 4)
			got := n.bodies()
			slices.Sort(got)
			require.Equal(t, []string{"", `{"n":1}`, `{"n":2}`, `{"n":3}`}, got)
		})
	}
}

// TestATriggerReplaces: with overlap replace the newest run wins, also if it was triggered. No run is lost: the one that
// was replaced can be retried with its payload.
func TestATriggerReplaces(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	id := n.create("newest", yearly, "/hang", `"timeout":"1h","overlap":"replace"`)
	first := n.triggerWith(id, `{"payload":1}`)
	n.await("/runs/"+first, "state", "running")
	n.awaitSent(1) // else it may be replaced before it is sent
	second := n.triggerWith(id, `{"payload":2}`)
	require.Equal(t, "replaced", n.await("/runs/"+first, "state", "cancelled")["reason"])
	n.await("/runs/"+second, "state", "running")
	require.Equal(t, 202, n.call("POST", "/runs/"+first+":retry", "").status)
	n.await("/runs/"+first, "state", "due")
	close(n.release)
	n.await("/runs/"+first, "state", "succeeded")
	require.Equal(t, "succeeded", n.get("/runs/" + second)["state"], "an older run does not replace a newer one")
	require.Equal(t, []string{"1", "2", "1"}, n.bodies())
}

// TestATriggerIfIdle: the request can refuse to wait. A refused request leaves its Idempotency-Key free.
func TestATriggerIfIdle(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	id := n.create("adhoc", yearly, "/hang", `"timeout":"1h"`)
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

// TestARetrySendsThePayloadOfTheTrigger, however the run ended. Reading the run shows the payload too.
func TestARetrySendsThePayloadOfTheTrigger(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	retry := func(run, state, payload string) {
		t.Helper()
		n.await("/runs/"+run, "state", state)
		require.Equal(t, payload, n.get("/runs/" + run)["payload"])
		n.set("/no", 200)
		a := n.call("POST", "/runs/"+run+":retry", "")
		require.Equal(t, 202, a.status, "%s: %s", payload, a.body)
		require.Equal(t, payload, a.json(t)["payload"])
		n.await("/runs/"+run, "origin", "redrive")
		n.await("/runs/"+run, "state", "succeeded")
		got := n.bodies()
		require.Equal(t, `"`+payload+`"`, got[len(got)-1])
		n.set("/no", 400)
	}
	trigger := func(id, payload string) string { return n.triggerWith(id, `{"payload":"`+payload+`"}`) }

	id := n.create("ok", yearly, "/ok", `"payload":"of the job"`)
	run := trigger(id, "succeeded")
	retry(run, "succeeded", "succeeded")
	retry(run, "succeeded", "succeeded") // as a retried run

	id = n.create("no", yearly, "/no")
	retry(trigger(id, "dead"), "failed", "dead")
	run = trigger(id, "discarded")
	n.await("/runs/"+run, "dead_letter", true)
	require.Equal(t, 204, n.call("POST", "/dead-letters/"+run+":discard", "").status)
	retry(run, "failed", "discarded")

	hangs := n.create("hangs", yearly, "/hang", `"timeout":"1h","deadline":"1h"`)
	running, waits := trigger(hangs, "running"), trigger(hangs, "waiting")
	n.await("/runs/"+running, "state", "running")
	require.Equal(t, 200, n.call("POST", "/runs/"+waits+":cancel", "").status)
	a := n.call("PATCH", "/jobs/"+hangs, `{"deadline":"1s"}`) // only now: the first one had to start within it
	require.Equal(t, 200, a.status, "%s", a.body)
	expires := trigger(hangs, "expired")
	require.Equal(t, "expired", n.await("/runs/"+expires, "state", "skipped")["reason"])
	require.Equal(t, 200, n.call("POST", "/runs/"+running+":cancel", "").status)
	close(n.release)
	retry(running, "cancelled", "running")
	retry(waits, "cancelled", "waiting")
	retry(expires, "skipped", "expired")
}
