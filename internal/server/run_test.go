package server_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

func timeOf(t *testing.T, field any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, field.(string))
	require.NoError(t, err)
	return at
}

const yearly = "0 0 1 1 *"

func TestARunIsShownWithItsAttempts(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	id := n.create("report", yearly, "/later", `"retry":{"max_attempts":3,"base":"10ms","backoff":"fixed"}`)
	run := n.trigger(id)
	got := n.await("/runs/"+run, "state", "failed")
	require.Equal(t, "attempts", got["reason"])
	require.Equal(t, true, got["dead_letter"])
	require.Equal(t, "trigger", got["origin"])
	require.Equal(t, "report", got["job_name"])
	require.Equal(t, "node one", got["node"])
	require.EqualValues(t, 503, got["status"])
	attempts := got["attempts"].([]any)
	require.Len(t, attempts, 3)
	for i, a := range attempts {
		attempt := a.(map[string]any)
		require.EqualValues(t, i+1, attempt["attempt"])
		require.Equal(t, "failed", attempt["state"])
		require.EqualValues(t, 503, attempt["status"])
		require.NotEmpty(t, attempt["ended_at"])
	}
	require.Equal(t, 404, n.call("GET", "/runs/run_nonsense", "").status)
	other := n.newKey(n.otherNamespace(), access.Admin)
	require.Equal(t, 404, n.callAs(other, "GET", "/runs/"+run, "").status, "a run of another namespace")
	require.Equal(t, 404, n.callAs(other, "POST", "/runs/"+run+":retry", "").status)

	// A retry keeps the id and the key, continues the numbers of attempts, and has all attempts of the policy.
	a := n.call("POST", "/runs/"+run+":retry", "")
	require.Equal(t, 202, a.status, "%s", a.body)
	require.Eventually(t, func() bool {
		got = n.get("/runs/" + run)
		return got["state"] == "failed" && got["attempt"] == 6.
	}, time.Minute, 20*time.Millisecond)
	require.Len(t, got["attempts"], 6)
	require.Len(t, got["earlier"], 1)
	require.Equal(t, "redrive", got["origin"])
	n.set("/later", 200)
	require.Equal(t, 202, n.call("POST", "/runs/"+run+":retry", "").status)
	got = n.await("/runs/"+run, "state", "succeeded")
	require.EqualValues(t, 7, got["attempt"])
	require.Equal(t, false, got["dead_letter"])
	require.Len(t, got["earlier"], 2)
	for _, key := range n.keys() {
		require.Equal(t, run, key, "one idempotency key for all")
	}
	a = n.call("POST", "/runs/"+run+":cancel", "")
	require.Equal(t, 409, a.status)
	require.Contains(t, a.json(t)["detail"], "succeeded")
}

// TestARetryOfACertainEnd: a retry that names an attempt is rejected unless the run last ended with it.
func TestARetryOfACertainEnd(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	stop := n.work()
	id := n.create("bad", yearly, "/no", `"overlap":"allow"`)
	runs := n.die(id, 2)
	retry := "/runs/" + runs[0] + ":retry"
	for query, want := range map[string]int{
		"?attempt=0": 409, "?attempt=2": 409, "?attempt=-1": 422, "?attempt=32768": 422, "?attempt=x": 422,
		"?attempt=": 422,
	} {
		a := n.call("POST", retry+query, "")
		require.Equal(t, want, a.status, "%s: %s", query, a.body)
	}
	a := n.call("POST", retry+"?attempt=0", "")
	require.Contains(t, a.json(t)["detail"], "last ended with attempt 1, not 0")
	const key = "Idempotency-Key"
	require.Equal(t, 202, n.call("POST", retry+"?attempt=1", "", key, "k").status)
	n.await("/runs/"+runs[0], "attempt", 2.)
	n.await("/runs/"+runs[0], "dead_letter", true)
	require.Equal(t, 202, n.call("POST", retry+"?attempt=1", "", key, "k").status, "the same request again")
	require.Equal(t, 422, n.call("POST", retry+"?attempt=2", "", key, "k").status, "another request")
	require.Equal(t, 409, n.call("POST", retry+"?attempt=1", "").status)
	stop()
	require.Equal(t, 202, n.call("POST", retry+"?attempt=2", "").status)
	require.Equal(t, 409, n.call("POST", retry+"?attempt=2", "").status, "it is live")

	// A run that ended before its first attempt.
	run := n.trigger(id)
	require.Equal(t, 200, n.call("POST", "/runs/"+run+":cancel", "").status)
	a = n.call("POST", "/runs/"+run+":retry?attempt=1", "")
	require.Contains(t, a.json(t)["detail"], "last ended with attempt 0, not 1")
	require.Equal(t, 202, n.call("POST", "/runs/"+run+":retry?attempt=0", "").status)
	redrive := n.call("POST", "/dead-letters/"+runs[1]+":redrive?attempt=1", "")
	require.Equal(t, 422, redrive.status, "a dead letter is the newest end")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	stop := n.work()
	id := n.create("slow", yearly, "/hang", `"timeout":"1h","overlap":"queue"`)
	first := n.trigger(id)
	n.await("/runs/"+first, "state", "running")
	second := n.trigger(id)
	n.await("/runs/"+second, "state", "due")

	a := n.call("POST", "/runs/"+second+":cancel", "")
	require.Equal(t, 200, a.status, "%s", a.body)
	got := a.json(t)
	require.Equal(t, "cancelled", got["state"])
	require.Equal(t, "cancelled", got["reason"])
	require.Nil(t, got["running_attempt"])

	a = n.call("POST", "/runs/"+first+":cancel", "")
	require.Equal(t, 200, a.status, "%s", a.body)
	got = a.json(t)
	require.Equal(t, "cancelled", got["state"])
	require.EqualValues(t, 1, got["running_attempt"])
	require.Equal(t, true, got["interrupted"], "this node runs it")
	require.Eventually(t, func() bool { return n.engine.Counts().Fenced == 1 },
		time.Minute, 10*time.Millisecond, "what it reports is ignored")
	stop()
	require.Equal(t, "cancelled", n.get("/runs/" + first)["state"])
	require.Len(t, n.keys(), 1, "the second was never sent")
}

func TestRunsAreListedByPages(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	stop := n.work()
	good := n.create("good", yearly, "/ok", `"overlap":"allow"`)
	bad := n.create("bad", yearly, "/no", `"overlap":"allow","queue":"slow"`)
	var last string
	for range 7 {
		n.trigger(good)
		last = n.trigger(bad)
	}
	n.awaitCount("/runs?page_size=500", 14)
	stop()
	waiting := n.trigger(good)

	for path, want := range map[string]int{
		"/runs?page_size=3":                                        14, // ended ones
		"/runs?page_size=3&state=succeeded":                        7,
		"/runs?page_size=3&state=failed":                           7,
		"/runs?page_size=3&state=failed,succeeded":                 14,
		"/runs?page_size=3&reason=rejected":                        7,
		"/runs?page_size=3&reason=overlap":                         0,
		"/runs?page_size=3&reason=overlap,rejected":                7,
		"/runs?page_size=3&queue=slow":                             7,
		"/runs?page_size=3&queue=none":                             0,
		"/runs?page_size=3&state=due":                              1,
		"/runs?page_size=3&state=running,pending":                  0,
		"/runs?page_size=3&job=good":                               8, // and the live one
		"/runs?page_size=3&job=good&state=succeeded":               7,
		"/runs?page_size=3&job=good&state=failed":                  0,
		"/runs?page_size=3&job=" + bad + "&queue=slow":             7,
		"/jobs/good/runs?page_size=3":                              8,
		"/jobs/good/runs?page_size=3&state=due":                    1,
		"/runs?page_size=3&ended_from=2100-01-01T00:00:00Z":        0,
		"/runs?page_size=3&ended_to=2100-01-01T00:00:00Z":          14,
		"/runs?page_size=3&due_to=2020-01-01T00:00:00Z":            0,
		"/jobs/bad/runs?page_size=3&due_from=2020-01-01T00:00:00Z": 7,
		"/jobs/bad/runs?page_size=3&ended_to=2020-01-01T00:00:00Z": 0,
	} {
		items, _ := n.all(path)
		require.Len(t, items, want, path)
		ids := map[any]bool{}
		by := "ended_at"
		if strings.Contains(path, "job") {
			by = "due_at"
		}
		for i, item := range items {
			ids[item["id"]] = true
			if i > 0 && !strings.Contains(path, "state=due") {
				require.False(t, timeOf(t, item[by]).After(timeOf(t, items[i-1][by])), "%s: the newest first", path)
			}
		}
		require.Len(t, ids, want, "%s: none twice", path)
	}
	items, _ := n.all("/jobs/good/runs?page_size=3")
	require.Equal(t, waiting, items[0]["id"])
	items, _ = n.all("/jobs/bad/runs?page_size=3")
	require.Equal(t, last, items[0]["id"])

	require.Equal(t, 422, n.call("GET", "/runs?state=running,failed", "").status)
	require.Equal(t, 400, n.call("GET", "/runs?page_token=x", "").status)
	require.Equal(t, 404, n.call("GET", "/jobs/nobody/runs", "").status)
	other := n.newKey(n.otherNamespace(), access.Viewer)
	for _, path := range []string{
		"/runs", "/runs?state=failed", "/runs?state=due", "/runs?job=" + good, "/jobs/" + bad + "/runs",
	} {
		a := n.callAs(other, "GET", path, "")
		require.Equal(t, 200, a.status, "%s", a.body)
		require.Empty(t, a.json(t)["items"], path)
	}
	require.Equal(t, 204, n.call("DELETE", "/jobs/"+bad, "").status)
	items, _ = n.all("/runs?page_size=3&job=" + url.QueryEscape(bad))
	require.Len(t, items, 7, "history outlives its job")
	require.Nil(t, items[0]["job_name"])
	require.Equal(t, 409, n.call("POST", fmt.Sprintf("/runs/%s:retry", last), "").status)
}

// TestStartsAreMeasured: nodes claim runs ahead of time, and the ledger has when the delivery really began.
func TestStartsAreMeasured(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.create("often", "every 1s", "/ok")
	n.create("failing", "every 1s", "/no", `"retry":{"max_attempts":1}`)
	defer n.work()()
	var succeeded, failed, early int
	require.Eventually(t, func() bool {
		err := n.pool.QueryRow(t.Context(), `
SELECT count(*) FILTER (WHERE ended = 1), count(*) FILTER (WHERE ended = 2),
       count(*) FILTER (WHERE ended IN (1, 2) AND started_at <= run_at)
FROM run_history`).Scan(&succeeded, &failed, &early)
		return assert.NoError(t, err) && succeeded >= 3 && failed >= 3
	}, time.Minute, 50*time.Millisecond)
	require.Zero(t, early, "none starts exactly when it is due, and none before")
}
