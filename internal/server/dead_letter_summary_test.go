package server_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestDeadLettersByCause: failures that look alike are one group, whose cause selects exactly them in the list, the dry
// run and the operation.
func TestDeadLettersByCause(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	bad := n.create("bad", yearly, "/no", `"overlap":"allow"`)
	late := n.create("late", yearly, "/later", `"overlap":"allow","queue":"slow","retry":{"max_attempts":1}`)
	n.die(bad, 5)
	n.die(n.create("also-bad", yearly, "/no", `"overlap":"allow","queue":"slow"`), 2)
	n.die(late, 4)

	got := n.get("/dead-letters:summary")
	require.EqualValues(t, 11, got["total"])
	require.Equal(t, false, got["more"])
	require.Equal(t, false, got["partial"])
	groups := got["groups"].([]any)
	require.Len(t, groups, 2)
	first, second := groups[0].(map[string]any), groups[1].(map[string]any)
	require.EqualValues(t, 7, first["count"], "of two jobs in two queues")
	require.EqualValues(t, 400, first["status"])
	require.Equal(t, "rejected", first["reason"])
	require.Regexp(t, `^rejected-400(-[0-9a-f]{12})?$`, first["cause"])
	require.Equal(t, first["cause"], first["key"])
	require.Equal(t, "also-bad", first["job_name"], "the last that failed")
	require.EqualValues(t, 4, second["count"])
	require.EqualValues(t, 503, second["status"])
	sum := 0
	for _, count := range first["sparkline"].([]any) {
		sum += int(count.(float64))
	}
	require.Equal(t, 7, sum)
	require.Len(t, first["sparkline"], 24)

	cause := first["cause"].(string)
	items, _ := n.all("/dead-letters?page_size=2&cause=" + cause)
	require.Len(t, items, 7)
	for _, item := range items {
		require.Equal(t, cause, item["cause"])
		require.EqualValues(t, 400, item["status"])
	}
	for by, want := range map[string]int{"cause": 2, "job": 3, "reason": 2, "queue": 2} {
		require.Len(t, n.get("/dead-letters:summary?by=" + by)["groups"], want, by)
	}
	require.Len(t, n.get("/dead-letters:summary?queue=slow&job=also-bad")["groups"], 1)
	require.Empty(t, n.get("/dead-letters:summary?failed_from=2100-01-01T00:00:00Z")["groups"])

	for _, verb := range []string{"redrive", "discard"} {
		a := n.call("POST", "/dead-letters:"+verb, fmt.Sprintf(`{"cause":%q,"dry_run":true}`, cause))
		require.Equal(t, 200, a.status, "%s", a.body)
		dry := a.json(t)
		require.EqualValues(t, 7, dry["count"], "that of the group")
		require.Equal(t, false, dry["more"])
		require.Len(t, dry["sample"], 5)
	}
	items, _ = n.all("/operations?page_size=5")
	require.Empty(t, items, "a dry run begins nothing")

	n.set("/no", 200)
	n.operate()
	a := n.call("POST", "/dead-letters:redrive", fmt.Sprintf(`{"cause":%q,"rate":1000}`, cause))
	require.Equal(t, 202, a.status, "%s", a.body)
	op := a.json(t)
	require.EqualValues(t, 7, op["count"])
	require.Equal(t, map[string]any{"cause": cause}, op["filter"])
	require.EqualValues(t, 7, n.await("/operations/"+op["id"].(string), "state", "finished")["done"])
	n.awaitCount("/runs?state=succeeded&page_size=10", 7)
	got = n.get("/dead-letters:summary")
	require.Len(t, got["groups"], 1, "the other cause is left")
	require.EqualValues(t, 4, got["total"])

	viewer, other := n.newKey(defaultNamespace, access.Viewer), n.newKey(n.otherNamespace(), access.Admin)
	require.Equal(t, 200, n.callAs(viewer, "GET", "/dead-letters:summary", "").status)
	require.Empty(t, n.callAs(other, "GET", "/dead-letters:summary", "").json(t)["groups"])
}

// TestSinceTheLastFailure: a group says how runs of its jobs ended after its last failure.
func TestSinceTheLastFailure(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	bad := n.create("bad", yearly, "/no", `"overlap":"allow"`)
	n.await("/runs/"+n.triggerAfter("/no", 200, bad), "state", "succeeded")
	n.triggerAfter("/no", 400, bad)
	n.awaitCount("/dead-letters?page_size=10", 1)
	since := func() map[string]any {
		return n.get("/dead-letters:summary")["groups"].([]any)[0].(map[string]any)["since"].(map[string]any)
	}
	require.EqualValues(t, 0, since()["succeeded"], "the success was before")
	require.EqualValues(t, 1, since()["jobs"])
	for range 3 {
		n.await("/runs/"+n.triggerAfter("/no", 200, bad), "state", "succeeded")
	}
	require.EqualValues(t, 3, since()["succeeded"])
	require.EqualValues(t, 0, since()["failed"])
	require.Equal(t, false, since()["more"])
	n.triggerAfter("/no", 401, bad) // another cause, after the first one
	n.awaitCount("/dead-letters?page_size=10", 2)
	for _, g := range n.get("/dead-letters:summary")["groups"].([]any) {
		g := g.(map[string]any)
		since := g["since"].(map[string]any)
		if g["status"].(float64) == 400 {
			require.EqualValues(t, 3, since["succeeded"])
			require.EqualValues(t, 1, since["failed"])
		} else {
			require.EqualValues(t, 0, since["succeeded"])
		}
	}
}

// triggerAfter triggers a job after its target got another status.
func (n *node) triggerAfter(path string, status int, id string) string {
	n.t.Helper()
	n.set(path, status)
	return n.trigger(id)
}
