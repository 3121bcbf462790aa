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

// why returns the stories of one time, or of the last and the next occurrence.
func (n *node) why(id, at string) []map[string]any {
	n.t.Helper()
	path := "/jobs/" + id + "/why"
	if at != "" {
		path += "?at=" + url.QueryEscape(at)
	}
	var out []map[string]any
	for _, item := range n.get(path)["items"].([]any) {
		out = append(out, item.(map[string]any))
	}
	return out
}

// last returns the story of the last occurrence. The next one follows it, and dead letters and runs precede it.
func (n *node) last(name string) map[string]any {
	n.t.Helper()
	stories := n.why(name, "")
	return stories[len(stories)-2]
}

func (n *node) exec(sql string, args ...any) {
	n.t.Helper()
	_, err := n.pool.Exec(n.t.Context(), sql, args...)
	require.NoError(n.t, err)
}

func TestWhyWithAnEngine(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	stop := n.work()
	id := n.create("tick", "every 1s", "/no", `"overlap":"allow"`)
	require.Eventually(t, func() bool {
		items, _ := n.all("/jobs/tick/runs?state=failed&page_size=500")
		return len(items) >= 2
	}, time.Minute, 50*time.Millisecond)
	items, _ := n.all("/jobs/tick/runs?state=failed&page_size=500")
	dead := items[0]
	story := n.why("tick", dead["due_at"].(string))[0]
	require.Equal(t, "failed", story["code"], story["text"])
	require.Equal(t, "rejected", story["reason"])
	require.Contains(t, story["text"], "It is a dead letter")
	require.Equal(t, dead["id"], story["run"].(map[string]any)["id"])

	run := n.trigger(id)
	n.await("/runs/"+run, "state", "failed")
	due := n.get("/runs/" + run)["due_at"].(string)
	require.Contains(t, n.why(id, due)[0]["text"], "triggered by hand")

	require.Eventually(t, func() bool { // it may become due while the request is in progress
		stories := n.why("tick", "")
		next := stories[len(stories)-1]
		return len(stories) >= 2 && (next["code"] == "planned" || next["code"] == "not_due")
	}, time.Minute, 100*time.Millisecond)
	stop()

	// Behind: the time passes and no node plans.
	require.Eventually(t, func() bool { return n.last("tick")["code"] == "unplanned" },
		time.Minute, 100*time.Millisecond)
	require.Contains(t, n.last("tick")["text"], "A node owns")
	n.exec(`DELETE FROM session`)
	require.Contains(t, n.last("tick")["text"], "no live node owns")
	// Planned, and no node starts it.
	_, err := n.store.Plan(t.Context(), job.PlanParams{
		Partitions: soleMember{}.Owned(), LookAhead: time.Minute, Cursors: 100,
	})
	require.NoError(t, err)
	story = n.last("tick")
	require.Equal(t, "due", story["code"], story["text"])
	n.exec(`UPDATE queue SET paused = true, paused_at = now(), note = 'repairs'`)
	story = n.last("tick")
	require.Equal(t, "queue_paused", story["code"])
	require.Contains(t, story["text"], "(repairs)")

	require.Equal(t, 200, n.call("POST", "/jobs/tick:pause", `{"note":"enough"}`).status)
	require.Eventually(t, func() bool { return n.last("tick")["code"] == "paused" },
		time.Minute, 100*time.Millisecond)
	require.Regexp(t, `by key:test \[key_[0-9a-z]{26}\] \(enough\)`, n.last("tick")["text"])
	paused := n.last("tick")["due_at"].(string)
	require.Equal(t, 200, n.call("POST", "/jobs/tick:resume", "").status)
	story = n.why("tick", paused)[0]
	require.Equal(t, "skipped", story["code"])
	require.Equal(t, "paused", story["reason"])

	require.Equal(t, 204, n.call("DELETE", "/jobs/tick", "").status)
	story = n.why(id, dead["due_at"].(string))[0]
	require.Equal(t, "failed", story["code"], "history remains")
	story = n.why(id, "2099-01-01T00:00:00Z")[0]
	require.Equal(t, "deleted", story["code"])
	require.Contains(t, story["text"], "by key:test")
}

func TestWhyNothingRan(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	a := n.call("POST", "/jobs", `{"name":"nightly","schedule":{"cron":"30 2 * * *","timezone":"Europe/Berlin",
		"dst":{"gap":"skip"},"calendars":[{"dates":["12-25"]}],"end_at":"2099-01-01T00:00:00Z"},
		"target":{"kind":"noop"}}`)
	require.Equal(t, 201, a.status, "%s", a.body)
	n.exec(`UPDATE job_version SET created_at = '2020-01-01'`)
	n.exec(`INSERT INTO archive_day (day, closed_at, dropped_at, manifest) VALUES
		('2021-06-02', now(), now(), 'v1/manifest/2021-06-02.g0001.json'), ('2021-06-03', now(), now(), NULL)`)

	for at, want := range map[string][]string{
		"2019-06-01T02:30":          {"created_later", "", "2020-01-01"},
		"2098-03-30T02:30":          {"skipped", "dst_gap", "put forward"},
		"2098-12-25T02:30":          {"skipped", "calendar", "calendar"},
		"2098-06-01T02:31":          {"no_occurrence", "", "before is 2098-06-01 02:30:00 CEST"},
		"2098-06-01T02:30":          {"not_due", "", "due in"},
		"2099-06-01T02:30":          {"after_end", "", "end_at"},
		"2021-06-01T02:30":          {"forgotten", "", "history is kept"},
		"2021-06-02T02:30":          {"archived", "", "archived"},
		"2021-06-03T02:30":          {"forgotten", "", "history is kept"},
		"2098-06-01T02:30:00+02:00": {"not_due", "", ""},
	} {
		story := n.why("nightly", at)[0]
		require.Equal(t, want[0], story["code"], "%s: %s", at, story["text"])
		if want[1] != "" {
			require.Equal(t, want[1], story["reason"])
		}
		require.Contains(t, story["text"], want[2])
		require.True(t, strings.HasPrefix(story["local"].(string), at[:10]) || want[1] == "dst_gap", story["local"])
	}
	require.Contains(t, n.why("nightly", "2021-06-02T02:30")[0]["next"], "--from 2021-06-02 --to 2021-06-03")
	items := n.get("/jobs/nightly/timeline?from=2021-06-01T00:00:00Z&to=2021-06-04T00:00:00Z")["items"].([]any)
	require.Len(t, items, 1, "one day of three is archived, and of the others nothing is known")
	require.Equal(t, "archived", items[0].(map[string]any)["state"])
	require.Equal(t, "2021-06-02T00:30:00Z", items[0].(map[string]any)["due_at"])
	require.Equal(t, 422, n.call("GET", "/jobs/nightly/why?at=yesterday", "").status)
	require.Equal(t, 404, n.call("GET", "/jobs/nobody/why", "").status)

	// Missed while the cluster was down: the cursor of an hourly job is a day behind.
	hourly := n.create("hourly", "0 * * * *", "/ok", `"missed":{"policy":"skip"}`)
	n.exec(`UPDATE job_version SET created_at = '2020-01-01'`)
	n.exec(`UPDATE job SET plan_from = '2020-01-01' WHERE name = 'hourly'`)
	n.exec(`UPDATE cursor SET next_due_at = date_trunc('hour', now()) - interval '1 day'
		WHERE id = (SELECT cursor_id FROM job WHERE name = 'hourly')`)
	n.exec(`UPDATE partition SET missed_until = now() - interval '10 s'`)
	_, err := n.store.Plan(t.Context(), job.PlanParams{
		Partitions: soleMember{}.Owned(), LookAhead: time.Second, Cursors: 100,
	})
	require.NoError(t, err)
	var missed time.Time
	require.NoError(t, n.pool.QueryRow(t.Context(),
		`SELECT date_trunc('hour', now()) - interval '3 hours'`).Scan(&missed))
	story := n.why(hourly, missed.UTC().Format(time.RFC3339))[0]
	require.Equal(t, "skipped", story["code"], story["text"])
	require.Equal(t, "missed", story["reason"])
	require.Contains(t, story["text"], "missed.policy: skip")

	other := n.newKey(n.otherNamespace(), access.Viewer)
	require.Equal(t, 404, n.callAs(other, "GET", "/jobs/"+hourly+"/why", "").status)
}

// However many runs share a due time, each of them is explained, pending or ended.
func TestWhyOfManyRunsOfOneTime(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	id, err := job.ParseJobID(n.create("tick", "every 24h", "/no"))
	require.NoError(t, err)
	explained := func(due time.Time, seq int16) {
		t.Helper()
		key := job.FormatRunID(job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: due, Seq: seq})
		a := n.call("GET", "/runs/"+key+"/why", "")
		require.Equal(t, 200, a.status, "%d: %s", seq, a.body)
		story := a.json(t)["items"].([]any)[0].(map[string]any)
		require.Equal(t, key, story["run"].(map[string]any)["id"])
	}
	var now time.Time
	require.NoError(t, n.pool.QueryRow(t.Context(), `SELECT date_trunc('second', now())`).Scan(&now))
	due := now.UTC().Add(time.Hour)
	for range 25 {
		a := n.call("POST", "/jobs/tick:trigger", `{"at":"`+due.Format(time.RFC3339)+`"}`)
		require.Equal(t, 202, a.status, "%s", a.body)
	}
	for seq := range int16(25) {
		explained(due, seq+1)
	}
	due = now.UTC().Add(-time.Hour)
	n.exec(`INSERT INTO run_history
  (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id)
SELECT partition, s, 1, id, $1, $1, now(), 1, 1, 1, 0, queue_id FROM job, generate_series(1, 120) s`, due)
	for _, seq := range []int16{1, 99, 101, 120} {
		explained(due, seq)
	}
}
