package server_test

import (
	"context"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// How often each list is read, and how long a page may take.
const (
	listRounds = 10
	listPages  = 5
	listLimit  = 100 * time.Millisecond
)

// TestListsStayFast measures every filter of the lists with BELFRY_LISTS jobs and five times as many ended
// runs: for each filter, 19 of 20 requests must take less than listLimit. make measure-lists is the long form.
func TestListsStayFast(t *testing.T) {
	jobs, err := strconv.Atoi(os.Getenv("BELFRY_LISTS"))
	if err != nil {
		t.Skip("set BELFRY_LISTS to the number of jobs, such as 1000000")
	}
	n := setupNode(t)
	began := clock.Elapsed()
	n.t.Cleanup(func() { // pgtest keeps the database of a failed test, which should not take gigabytes
		if n.t.Failed() {
			_, _ = n.pool.Exec(context.Background(),
				`TRUNCATE job, job_label, job_version, cursor, run, run_history, dead_letter, load_job`)
		}
	})
	n.load(dataSize{jobs: jobs, runs: 5 * jobs, failures: 100, payload: 200, live: 50})
	t.Logf("%d jobs and %d ended runs, loaded in %s", jobs, 5*jobs, (clock.Elapsed() - began).Round(time.Second))
	other := n.newKey(n.otherNamespace(), "editor") // has only one job
	alone := `{"name":"alone","schedule":"every 1h","target":{"kind":"noop"}}`
	require.Equal(t, 201, n.callAs(other, "POST", "/jobs", alone).status)
	m := lists{node: n}
	for _, path := range n.jobLists(jobs) {
		m.measure("", n.key, path)
	}
	for _, path := range n.runLists(jobs) {
		m.measure("", n.key, path)
	}
	foreign := []string{
		"/jobs", "/jobs?name=needle", "/jobs?name=zq", "/jobs?state=active", "/jobs?due_to=" + n.in(48*time.Hour),
		"/runs", "/runs?state=failed", "/runs?state=pending", "/dead-letters",
	}
	for _, path := range foreign {
		m.measure("another namespace: ", other, path)
	}
	// A hot second: the runs of a quarter of the jobs are planned.
	n.exec(strings.ReplaceAll(loadLive, "$1", "2"))
	for _, path := range n.jobLists(jobs) {
		if strings.Contains(path, "due_") {
			m.measure("hot second: ", n.key, path)
		}
	}
	for _, path := range []string{
		"/runs?state=pending", "/runs?state=due", "/runs?state=running", "/runs?state=waiting",
		"/runs?state=pending&queue=queue-3",
	} {
		m.measure("hot second: ", n.key, path)
	}
	m.measure("hot second, another namespace: ", other, "/jobs?due_to="+n.in(48*time.Hour))
	m.measure("hot second, another namespace: ", other, "/runs?state=pending")
	require.Empty(t, m.slow, "slower than %s", listLimit)
}

// in returns a time from now, as queries have it.
func (n *node) in(d time.Duration) string {
	n.t.Helper()
	var now time.Time
	require.NoError(n.t, n.pool.QueryRow(n.t.Context(), `SELECT now()`).Scan(&now))
	return now.Add(d).UTC().Format(time.RFC3339)
}

func (n *node) jobLists(jobs int) (paths []string) {
	day := "due_to=" + n.in(24*time.Hour)
	for _, query := range []string{
		"", "page_size=500",
		"label=half%3Dyes", "label=half%3Dyes&page_size=500", "label=few%3Dyes", "label=newest%3Dyes",
		"label=half%3Dyes&label=few%3Dyes", "label=half%3Dyes&label=newest%3Dyes", "label=no%3Dno",
		"state=paused", "state=active", "state=finished",
		"target=http", "target=few", "queue=half", "queue=few", "queue=queue-3",
		"name=alpha", "name=alpha&page_size=500", "name=needle", "name=newest", "name=nowhere", "name=zq",
		"name=x" + strconv.Itoa(jobs-7),
		"state=paused&queue=half", "target=http&label=few%3Dyes", "name=alpha&state=finished",
		"name=newest&state=active&label=half%3Dno", "state=active&queue=half",
		"due_to=" + n.in(10*time.Minute), day, day + "&page_size=500",
		"due_from=" + n.in(20*time.Minute) + "&due_to=" + n.in(21*time.Minute), "due_from=" + n.in(12*time.Hour),
	} {
		paths = append(paths, "/jobs?"+query)
	}
	return paths
}

func (n *node) runLists(jobs int) []string {
	busy, quiet := "beta-x1", "beta-x"+strconv.Itoa(jobs/2000*1000+7)
	hour, yesterday := n.in(-time.Hour), n.in(-24*time.Hour)
	return []string{
		"/runs", "/runs?page_size=500", "/runs?state=succeeded", "/runs?state=failed", "/runs?state=cancelled",
		"/runs?state=skipped", "/runs?state=failed&state=skipped",
		"/runs?reason=overlap", "/runs?reason=expired", "/runs?reason=expired&state=failed",
		"/runs?state=succeeded&reason=expired",
		"/runs?queue=queue-3", "/runs?queue=few", "/runs?queue=few&state=succeeded", "/runs?queue=queue-3&state=failed",
		"/runs?ended_to=" + yesterday, "/runs?ended_from=" + hour,
		"/runs?ended_from=" + yesterday + "&ended_to=" + hour, "/runs?ended_to=" + yesterday + "&state=failed",
		"/runs?due_to=" + yesterday, "/runs?due_from=" + hour, "/runs?due_to=2020-01-01T00:00:00Z",
		"/runs?due_to=2020-01-01T00:00:00Z&state=failed",
		"/runs?state=pending", "/runs?state=due", "/runs?state=running", "/runs?state=waiting",
		"/runs?state=pending&queue=queue-3", "/runs?state=running&queue=few",
		"/runs?job=" + busy, "/runs?job=" + busy + "&page_size=500", "/runs?job=" + busy + "&state=failed",
		"/runs?job=" + busy + "&reason=expired", "/runs?job=" + busy + "&state=running",
		"/runs?job=" + busy + "&ended_to=" + yesterday,
		"/runs?job=" + busy + "&due_from=" + yesterday + "&due_to=" + hour,
		"/jobs/" + busy + "/runs?state=succeeded&due_to=" + yesterday,
		"/jobs/" + quiet + "/runs", "/jobs/" + quiet + "/runs?state=failed",
		"/jobs/" + quiet + "/runs?reason=overlap&due_to=" + yesterday,
		"/dead-letters", "/dead-letters?reason=attempts", "/dead-letters?reason=gone", "/dead-letters?job=" + busy,
		"/dead-letters?queue=queue-3", "/dead-letters?queue=few",
		"/queues", "/jobs/" + quiet + "/why", "/jobs/" + busy + "/why", "/cluster", "/operations", "/audit",
	}
}

// lists is a measurement in progress.
type lists struct {
	*node
	slow []string
}

// measure reads the first pages of a list several times.
func (m *lists) measure(what, key, path string) {
	m.t.Helper()
	var took []time.Duration
	items := 0
	for range listRounds {
		token := ""
		for range listPages {
			at := path
			if token != "" {
				separator := map[bool]string{false: "?", true: "&"}[strings.Contains(path, "?")]
				at += separator + "page_token=" + url.QueryEscape(token)
			}
			began := clock.Elapsed()
			a := m.callAs(key, "GET", at, "")
			took = append(took, clock.Elapsed()-began)
			require.Equal(m.t, 200, a.status, "%s: %s", at, a.body)
			body := a.json(m.t)
			if list, ok := body["items"].([]any); ok {
				items += len(list)
			}
			if token, _ = body["next_page_token"].(string); token == "" {
				break
			}
		}
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	p95, mark := took[len(took)*95/100], " "
	if p95 > listLimit {
		mark = "!"
		m.slow = append(m.slow, what+path)
	}
	m.t.Logf("%s %-86s p50 %6.1f ms  p95 %6.1f ms  max %6.1f ms  %d requests, %d items",
		mark, what+path, ms(took[len(took)/2]), ms(p95), ms(took[len(took)-1]), len(took), items)
}
