package server_test

import (
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// screenRounds is how often each request of a screen is sent.
const screenRounds = 50

// loadMinutely gives a job of each minute nine days of history.
const (
	loadMinutelyJob = `
UPDATE job SET plan_from = now() - interval '9 days', created_at = now() - interval '9 days' WHERE name = 'minutely'`
	loadMinutelyVersion = `
UPDATE job_version v SET created_at = j.created_at FROM job j
WHERE j.name = 'minutely' AND v.partition = j.partition AND v.job_id = j.id`
	loadMinutelyRuns = `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
    status, session_id, queue_id)
SELECT j.partition, 0, 1, j.id, at, at, at, at + interval '50 ms', 1, 1, 0, 200,
    '00000000-0000-7000-8000-00000000000a', j.queue_id
FROM job j, generate_series(date_trunc('minute', now()) - interval '8 days', now(), interval '1 minute') at
WHERE j.name = 'minutely'`
)

// TestScreensStayFast sends the requests of each screen of the web UI with BELFRY_SCREENS jobs and half as many ended
// runs. The database stays, so that the next call does not load it again. make measure-ui is the long form. With
// BELFRY_SCREEN it sends only requests that contain a string.
func TestScreensStayFast(t *testing.T) {
	jobs, err := strconv.Atoi(os.Getenv("BELFRY_SCREENS"))
	if err != nil {
		t.Skip("set BELFRY_SCREENS to the number of jobs, such as 10000000")
	}
	n := setupNodeOn(t, pgtest.Kept(t, "belfry_screens_"+strconv.Itoa(jobs)))
	n.loadScreens(jobs)
	var slow []string
	n.exec(`VACUUM dead_letter, run`)
	for _, s := range n.screens() {
		if !strings.Contains(s.path, os.Getenv("BELFRY_SCREEN")) {
			continue
		}
		first, p50, p95 := n.time(s.path)
		mark := " "
		if p95 > listLimit {
			mark, slow = "!", append(slow, s.path)
		}
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		t.Logf("%s %-12s %-78s first %6.1f  p50 %6.1f  p95 %6.1f ms", mark, s.name, s.path, ms(first), ms(p50), ms(p95))
	}
	require.Empty(t, slow, "slower than %s", listLimit)
}

// loadScreens loads the data, unless the database has it.
func (n *node) loadScreens(jobs int) {
	n.t.Helper()
	var loaded bool
	require.NoError(n.t, n.pool.QueryRow(n.t.Context(), `SELECT to_regclass('screens_loaded') IS NOT NULL`).Scan(&loaded))
	if loaded {
		return
	}
	began := clock.Elapsed()
	n.load(dataSize{jobs: jobs, runs: jobs / 2, failures: 25, payload: 40, live: 251})
	n.make(`{"name":"minutely","schedule":"* * * * *","target":{"kind":"noop"}}`)
	for _, sql := range []string{
		loadMinutelyJob, loadMinutelyVersion, loadMinutelyRuns, `DROP TABLE load_job`, `ANALYZE`,
		`CREATE TABLE screens_loaded ()`,
	} {
		n.exec(sql)
	}
	n.t.Logf("%d jobs and %d ended runs, loaded in %s", jobs, jobs/2, (clock.Elapsed() - began).Round(time.Second))
}

// time sends a request several times. The first one may fill caches, of the node and of the database.
func (n *node) time(path string) (first, p50, p95 time.Duration) {
	n.t.Helper()
	took := make([]time.Duration, screenRounds)
	for i := range took {
		began := clock.Elapsed()
		a := n.call("GET", path, "")
		took[i] = clock.Elapsed() - began
		require.Equal(n.t, 200, a.status, "%s: %s", path, a.body)
	}
	first = took[0]
	slices.Sort(took)
	return first, took[len(took)/2], took[len(took)*95/100]
}

// anyRun returns the id of a run. A page may be empty if it took too long to find one.
func (n *node) anyRun(filter string) string {
	n.t.Helper()
	token := ""
	for range 100 {
		page := n.call("GET", "/runs?page_size=1&"+filter+token, "").json(n.t)
		if items := page["items"].([]any); len(items) > 0 {
			return items[0].(map[string]any)["id"].(string)
		}
		token = "&page_token=" + url.QueryEscape(page["next_page_token"].(string))
	}
	require.Fail(n.t, "no run", filter)
	return ""
}

type screenRequest struct{ name, path string }

// screens returns what the screens of the web UI read, each first of all without a filter.
func (n *node) screens() (out []screenRequest) {
	n.t.Helper()
	add := func(screen string, paths ...string) {
		for _, path := range paths {
			out = append(out, screenRequest{screen, path})
		}
	}
	run, live := n.anyRun("state=failed"), n.anyRun("state=due")
	minutely, busy := n.call("GET", "/jobs/minutely", "").json(n.t)["id"].(string), "beta-x1"
	two := func(from, to time.Duration) string {
		return "from=" + url.QueryEscape(n.in(from)) + "&to=" + url.QueryEscape(n.in(to))
	}
	day, fortnight := two(-24*time.Hour, 12*time.Hour), two(-12*24*time.Hour, 3*24*time.Hour)
	add("Overview", "/overview", "/stats")
	for _, filter := range []string{
		"", "&name=needle", "&name=eta-x77", "&label=half%3Dyes", "&label=few%3Dyes", "&queue=queue-3", "&state=paused",
		"&state=active&queue=half", "&due_to=" + url.QueryEscape(n.in(24*time.Hour)),
	} {
		add("Jobs", "/jobs?include=recent&page_size=50"+filter)
	}
	add("Jobs", "/labels", "/labels/half?prefix=")
	for _, id := range []string{minutely, busy} {
		add("Job", "/jobs/"+id+"?include=recent", "/jobs/"+id+"/timeline?"+day, "/jobs/"+id+"/timeline?"+fortnight,
			"/jobs/"+id+"/stats?"+day, "/jobs/"+id+"/stats?"+fortnight, "/jobs/"+id+"/runs?page_size=500",
			"/jobs/"+id+"/versions", "/jobs/"+id+"/why", "/dead-letters?page_size=50&job="+id,
			"/audit?page_size=50&object="+id)
	}
	add("Runs", "/runs?page_size=50", "/runs?state=failed&page_size=50", "/runs?state=due&page_size=50",
		"/runs?state=running&page_size=50", "/runs?queue=queue-3&page_size=50", "/runs?reason=overlap&page_size=50")
	add("Run", "/runs/"+run, "/runs/"+live)
	for _, by := range []string{"cause", "job", "queue", "reason"} {
		add("Dead letters", "/dead-letters:summary?by="+by)
	}
	add("Dead letters", "/dead-letters?page_size=20", "/dead-letters:summary?by=cause&queue=queue-3")
	add("Load", "/load", "/load?queue=queue-3", "/load?label=few%3Dyes", "/load?label=half%3Dyes")
	add("Queues", "/queues?include=counts&page_size=100", "/queues/queue-3?include=counts", "/queues/queue-3/sessions")
	add("Cluster", "/cluster", "/schedules:broken")
	add("Operations", "/operations?page_size=50")
	add("Audit", "/audit?page_size=50", "/keys")
	return out
}
