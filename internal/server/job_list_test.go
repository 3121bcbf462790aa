package server_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// make creates a job and returns its id.
func (b *bundle) make(body string) string {
	b.t.Helper()
	a := b.call("POST", "/jobs", body)
	require.Equal(b.t, 201, a.status, "%s", a.body)
	return a.json(b.t)["id"].(string)
}

// list returns the names on all pages of a list, and the number of pages.
func (b *bundle) list(query string) (names []string, pages int) {
	b.t.Helper()
	token := ""
	for {
		a := b.call("GET", "/jobs?"+query+token, "")
		require.Equal(b.t, 200, a.status, "%s", a.body)
		got := a.json(b.t)
		pages++
		for _, item := range got["items"].([]any) {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		next, more := got["next_page_token"].(string)
		if !more {
			return names, pages
		}
		require.Less(b.t, pages, 100)
		token = "&page_token=" + url.QueryEscape(next)
	}
}

func TestJobsAreListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 12 {
		kind, env := []string{"noop", "http"}[i%2], []string{"prod", "test"}[i%2]
		queue := []string{"default", "slow", "fast"}[i%3]
		b.make(fmt.Sprintf(`{"name":"Report_%02d","schedule":"every 1h","target":{"kind":"%s"},"queue":"%s",`+
			`"labels":{"team":"t%d","env":"%s"}}`, i, kind, queue, i%4, env))
	}
	for _, name := range []string{"Report_03", "Report_07"} {
		require.Equal(t, 200, b.call("POST", "/jobs/"+name+":pause", "").status)
	}
	foreign := uuid.New()
	_, err := b.pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES ($1, 'other')`, foreign)
	require.NoError(t, err)
	other := b.newKey(foreign, access.Admin)
	theirs := `{"name":"Report_99","schedule":"every 1h","target":{"kind":"noop"},"labels":{"team":"t1"}}`
	require.Equal(t, 201, b.callAs(other, "POST", "/jobs", theirs).status)

	named := func(numbers ...int) (out []string) {
		for _, n := range numbers {
			out = append(out, fmt.Sprintf("Report_%02d", n))
		}
		return out
	}
	for query, want := range map[string][]string{
		"":                                 named(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
		"label=team%3Dt1":                  named(1, 5, 9),
		"label=team%3Dt1&label=env%3Dtest": named(1, 5, 9),
		"label=team%3Dt1&label=env%3Dprod": nil,
		"label=team%3Dt1&label=team%3Dt2":  nil,
		"label=team%3Dt7":                  nil,
		"state=paused":                     named(3, 7),
		"state=active":                     named(0, 1, 2, 4, 5, 6, 8, 9, 10, 11),
		"state=finished":                   nil,
		"target=http":                      named(1, 3, 5, 7, 9, 11),
		"queue=slow":                       named(1, 4, 7, 10),
		"queue=none":                       nil,
		"name=rt_0":                        named(0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
		"name=REPORT_1":                    named(10, 11),
		"name=%25":                         nil,
		"queue=slow&target=http":           named(1, 7),
		"queue=slow&state=paused&name=07":  named(7),
	} {
		for _, size := range []string{"", "&page_size=1", "&page_size=5"} {
			got, pages := b.list(query + size)
			require.Equal(t, want, got, query+size)
			if size == "&page_size=1" {
				require.GreaterOrEqual(t, pages, len(want))
			}
		}
	}
	a := b.call("GET", "/jobs?page_token=AAAA", "")
	require.Equal(t, 400, a.status)
	require.Contains(t, string(a.body), "page_token")
	token := b.call("GET", "/jobs?page_size=1", "").json(t)["next_page_token"].(string)
	require.Equal(t, 200, b.call("GET", "/jobs?page_token="+token, "").status)
	a = b.call("GET", "/jobs?due_to=2100-01-01T00:00:00Z&page_token="+token, "")
	require.Equal(t, 400, a.status, "the token is of a list in another order")
	require.Equal(t, 422, b.call("GET", "/jobs?label=team", "").status)
	require.Equal(t, 422, b.call("GET", "/jobs?page_size=501", "").status)
	a = b.callAs(other, "GET", "/jobs?label=team%3Dt1", "")
	require.Equal(t, 1, strings.Count(string(a.body), `"id":`), "%s", a.body)

	moved := `{"name":"Report_01","schedule":"every 1h","target":{"kind":"noop"},"labels":{"team":"t2"}}`
	require.Equal(t, 200, b.call("PUT", "/jobs/Report_01", moved).status)
	require.Equal(t, 204, b.call("DELETE", "/jobs/Report_05", "").status)
	got, _ := b.list("label=team%3Dt1")
	require.Equal(t, named(9), got, "labels follow edits and deletes")
	got, _ = b.list("label=team%3Dt2")
	require.Equal(t, named(1, 2, 6, 10), got)
}

func TestJobsAreListedByDueTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var now time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT date_trunc('hour', now())`).Scan(&now))
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	want := map[string]time.Duration{}
	for i := range 30 {
		in := 2*time.Hour + time.Duration(i*7%30)*time.Minute
		name := fmt.Sprintf("once-%02d", i)
		b.make(fmt.Sprintf(`{"name":%q,"schedule":%q,"target":{"kind":"noop"}}`, name, at(in)))
		want[name] = in
	}
	b.make(fmt.Sprintf(
		`{"name":"later","schedule":{"every":"1m","start_at":%q},"target":{"kind":"noop"}}`, at(5*time.Hour)))
	want["later"] = 5 * time.Hour
	b.make(`{"name":"paused","schedule":"every 1h","target":{"kind":"noop"}}`)
	require.Equal(t, 200, b.call("POST", "/jobs/paused:pause", "").status)
	b.make(`{"name":"soon","schedule":"every 1s","target":{"kind":"noop"},"labels":{"a":"b"}}`)
	names := []string{"soon"}
	for name := range want {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return int(want[x] - want[y]) })
	for _, size := range []int{2, 50} {
		got, _ := b.list(fmt.Sprintf("due_to=%s&page_size=%d", at(24*time.Hour), size))
		require.Equal(t, names, got)
		from, before := at(2*time.Hour+5*time.Minute), at(2*time.Hour+25*time.Minute)
		got, _ = b.list(fmt.Sprintf("due_from=%s&due_to=%s&page_size=%d", from, before, size))
		require.Equal(t, names[6:26], got)
	}
	got, _ := b.list("due_from=" + at(4*time.Hour))
	require.Equal(t, []string{"later"}, got)
	for _, filter := range []string{"label=a%3Db", "state=active", "name=soon", "target=noop", "queue=default"} {
		for _, due := range []string{"due_from=", "due_to="} {
			a := b.call("GET", "/jobs?"+filter+"&"+due+at(24*time.Hour), "")
			require.Equal(t, 422, a.status, filter)
			require.Contains(t, string(a.body), "leave out label, state, name, target and queue")
		}
	}

	// What is planned is a run, and no occurrence of its schedule to come.
	for more := true; more; {
		planned, err := b.store.Plan(t.Context(), job.PlanParams{
			Partitions: partitions(), LookAhead: 2*time.Hour + 10*time.Minute, Cursors: 1000,
		})
		require.NoError(t, err)
		more = planned.More
	}
	got, _ = b.list("due_to=" + at(24*time.Hour))
	var left []string
	require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT array_agg(name) FROM job j
WHERE name IN ('soon', 'later') OR state = 1 AND NOT EXISTS (SELECT FROM run r WHERE r.job_id = j.id)`).Scan(&left))
	require.ElementsMatch(t, left, got)
	require.Less(t, len(got), len(names))
	require.Equal(t, at(2*time.Hour), b.call("GET", "/jobs/once-00", "").json(t)["next_due_at"],
		"planned, and finished as far as its schedule goes")
	require.Equal(t, at(5*time.Hour), b.call("GET", "/jobs/later", "").json(t)["next_due_at"])
	require.Nil(t, b.call("GET", "/jobs/paused", "").json(t)["next_due_at"])
}

func partitions() (out []int16) {
	for p := range int16(job.Partitions) {
		out = append(out, p)
	}
	return out
}

// TestPagesByDueTimeAreFull: all pages but the last one are, and no job is missing or listed twice, whatever the page size.
func TestPagesByDueTimeAreFull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var now time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT date_trunc('hour', now())`).Scan(&now))
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	var lines strings.Builder
	const jobs = 2600
	for i := range jobs {
		schedule := fmt.Sprintf(`{"cron":"%d * * * *"}`, i%7*8) // many jobs share it
		switch i % 13 {
		case 1:
			schedule = fmt.Sprintf("%q", at(3*time.Hour+time.Duration(i%50)*time.Second))
		case 2:
			start := at(2*time.Hour + time.Duration(i%9)*time.Minute)
			schedule = fmt.Sprintf(`{"cron":"*/5 * * * *","start_at":%q}`, start)
		case 3:
			schedule = `"every 10s"`
		}
		fmt.Fprintf(&lines, `{"name":"job-%04d","schedule":%s,"target":{"kind":"noop"},"labels":{"third":"%d"}}`+"\n",
			i, schedule, i%3)
	}
	a := b.call("POST", "/jobs:bulk", lines.String(), "Content-Type", "application/x-ndjson")
	require.EqualValues(t, jobs, a.json(t)["created"], "%.300s", a.body)
	for i := range 20 {
		require.Equal(t, 200, b.call("POST", fmt.Sprintf("/jobs/job-%04d:pause", 4+i*13), "").status)
	}
	// Some jobs have planned runs. Cursors that cannot be planned have no due time.
	_, err := b.store.Plan(t.Context(), job.PlanParams{
		Partitions: partitions()[:100], LookAhead: 10 * time.Minute, Cursors: 10_000,
	})
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(),
		`UPDATE cursor SET broken_at = now(), retry_at = now() + interval '1 h' WHERE partition = 200`)
	require.NoError(t, err)
	var want []string
	require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT array_agg(j.name ORDER BY CASE WHEN plan_from <= greatest(plan_at, now()) THEN plan_at ELSE plan_from END,
                                 j.partition, CASE WHEN plan_from <= greatest(plan_at, now()) THEN c.id ELSE 0 END, j.id)
FROM job j JOIN cursor c ON c.partition = j.partition AND c.id = j.cursor_id
WHERE j.state = 1 AND broken_at IS NULL AND greatest(plan_at, plan_from) < coalesce(end_at, 'infinity')`).Scan(&want))
	require.Greater(t, len(want), 2300)

	for _, size := range []int{500, 100, 37} {
		got, pages := b.list(fmt.Sprintf("due_from=1970-01-01T00:00:00Z&page_size=%d", size))
		require.Equal(t, want, got, size)
		require.Equal(t, (len(want)+size-1)/size, pages)
	}
}
