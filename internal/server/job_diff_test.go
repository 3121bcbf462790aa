package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server"
	"github.com/belfry-dev/belfry/internal/server/jobs"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// ndjson sends lines to an operation that takes them.
func (b *bundle) ndjson(path string, lines ...string) map[string]any {
	b.t.Helper()
	a := b.call("POST", path, strings.Join(lines, "\n"), "Content-Type", "application/x-ndjson")
	require.Equal(b.t, 200, a.status, "%s", a.body)
	return a.json(b.t)
}

func TestDiffOfJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(hourly)
	b.make(`{"name":"other","schedule":"every 15m","target":{"kind":"noop"},"payload":{"n":9007199254740993}}`)
	got := b.ndjson("/jobs:diff",
		`{"name":"report","schedule":{"cron":"*/30 * * * *","timezone":"Europe/Berlin"},`+
			`"target":{"kind":"http","config":{"url":"https://example.com/hook"}},"payload":{"a":1},"priority":3}`,
		``,
		`{"name":"other","schedule":"every 15m","target":{"kind":"noop"},"payload":{"n":9007199254740993},"queue":"default"}`,
		`{"name":"new","schedule":"every 1h","target":{"kind":"noop"}}`,
		`{"name":"bad","schedule":"61 * * * *","target":{"kind":"noop"},"timeout":"eternal"}`,
		`{"name":"bad","retry":{"max_atempts":1},"schedule":"every 1h","target":{"kind":"noop"}}`,
		`{`,
		`{"name":"new","schedule":"every 1h","target":{"kind":"noop"}}`,
	)
	for field, want := range map[string]int{"created": 1, "changed": 1, "unchanged": 1, "refused": 4} {
		require.EqualValues(t, want, got[field], field)
	}
	items := got["items"].([]any)
	require.Len(t, items, 7)
	item := func(i int) map[string]any { return items[i].(map[string]any) }
	require.Equal(t, map[string]any{
		"line": 1., "name": "report", "result": "change", "id": id, "version": 1.,
		"occurrences_before": 24., "occurrences_after": 48.,
		"fields": []any{
			map[string]any{"field": "priority", "after": 3.},
			map[string]any{"field": "schedule.cron", "before": "0 * * * *", "after": "*/30 * * * *"},
		},
	}, item(0))
	require.Equal(t, "same", item(1)["result"], "a default is what is left out")
	require.EqualValues(t, 3, item(1)["line"])
	require.EqualValues(t, 96, item(1)["occurrences_after"])
	require.Equal(t, "create", item(2)["result"])
	require.EqualValues(t, 0, item(2)["occurrences_before"])
	require.EqualValues(t, 24, item(2)["occurrences_after"])
	require.Len(t, item(3)["problems"], 2, "all of them")
	require.Equal(t, "retry.max_atempts", item(4)["problems"].([]any)[0].(map[string]any)["field"])
	require.Equal(t, "refused", item(5)["result"])
	require.Contains(t, item(6)["problems"].([]any)[0].(map[string]any)["problem"], "line 4 has the same name")

	text, err := json.Marshal(b.ndjson("/jobs:diff",
		`{"name":"other","schedule":"every 15m","target":{"kind":"noop"},"payload":{"n":9007199254740992}}`))
	require.NoError(t, err)
	require.Contains(t, string(text), `"result":"change"`, "numbers are not rounded")
	require.Equal(t, 2, b.counted(`SELECT count(*) FROM job`), "nothing is saved")

	viewer := b.newKey(defaultNamespace, access.Viewer)
	a := b.callAs(viewer, "POST", "/jobs:diff", `{"name":"x"}`, "Content-Type", "application/x-ndjson")
	require.Equal(t, 200, a.status, "%s", a.body)
}

func TestDiffCountsABoundedNumberOfOccurrences(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var lines []string
	for i := range 20 {
		lines = append(lines, fmt.Sprintf(`{"name":"job-%d","schedule":"every 1s","target":{"kind":"noop"}}`, i))
	}
	items := b.ndjson("/jobs:diff", lines...)["items"].([]any)
	require.EqualValues(t, 24*3600, items[0].(map[string]any)["occurrences_after"])
	last := items[19].(map[string]any)
	require.Equal(t, "create", last["result"])
	require.NotContains(t, last, "occurrences_after", "it is not counted, and no wrong number is sent")
}

// TestDiffIsBounded: a short line may name a job with a large payload.
func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var jobs, lines []string
	var many strings.Builder
	for i := range 8_000 {
		fmt.Fprintf(&many, `"key-number-%d":1,`, i)
	}
	for i := range 48 {
		payload := `"` + strings.Repeat("x", 200_000) + `"`
		if i >= 44 {
			payload = "{" + many.String() + `"last":1}`
		}
		jobs = append(jobs, fmt.Sprintf(`{"name":"job-%d","schedule":"every 1h","target":{"kind":"noop"},"payload":%s}`, i, payload))
		lines = append(lines, fmt.Sprintf(`{"name":"job-%d","schedule":"every 1h","target":{"kind":"noop"},"payload":{}}`, i))
	}
	require.EqualValues(t, 48, b.ndjson("/jobs:bulk", jobs...)["created"])
	a := b.callAs(b.newKey(defaultNamespace, access.Viewer), "POST", "/jobs:diff", strings.Join(lines, "\n"),
		"Content-Type", "application/x-ndjson")
	require.Equal(t, 200, a.status)
	require.Less(t, len(a.body), 9<<20)
	require.EqualValues(t, 48, a.json(t)["changed"])
	items := a.json(t)["items"].([]any)
	field := func(i int) map[string]any { return items[i].(map[string]any)["fields"].([]any)[0].(map[string]any) }
	require.Len(t, field(0)["before"], 200_000)
	require.NotContains(t, field(0), "omitted")
	require.Equal(t, true, field(43)["omitted"])
	require.NotContains(t, field(43), "before")
	last := items[47].(map[string]any)
	require.EqualValues(t, 8_001, last["more_fields"])
	require.NotContains(t, last, "fields")
}

// TestProblemsOfLinesAreBounded: an answer lists the first problem of each line and 1,000 others, and counts the rest.
func TestProblemsOfLinesAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var members []string
	for i := range 61 {
		members = append(members, fmt.Sprintf(`"m%d":0`, i))
	}
	line := `{"name":"a","schedule":"every 1h","target":{"kind":"noop"},` + strings.Join(members, ",") + `}`
	items := b.ndjson("/jobs:diff", slices.Repeat([]string{line}, 50)...)["items"].([]any)
	listed := 0
	for _, item := range items {
		for _, p := range item.(map[string]any)["problems"].([]any) {
			if p.(map[string]any)["field"] != "" {
				listed++
			}
		}
	}
	require.Equal(t, 50+1_000, listed)
	require.Len(t, items[0].(map[string]any)["problems"], 61)
	last := items[49].(map[string]any)["problems"].([]any)
	require.Len(t, last, 2)
	require.Contains(t, last[1].(map[string]any)["problem"], "60 more are not listed")
}

// TestProblemsOfABulkAreBounded: the same for what is wrong with targets, of which each line of a bulk can have many.
func TestProblemsOfABulkAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var found []error
	for range 61 {
		found = append(found, problem.New("target.config", "wrong", "correct it"))
	}
	s := server.New(server.Options{
		Keys: b.store, Jobs: b.store, Verbs: b.store, Audit: b.store,
		Check: func(context.Context, access.Principal) jobs.TargetCheck {
			return func(job.Target) error { return errors.Join(found...) }
		},
	})
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	b.url = web.URL + "/api/v1"
	const line = `{"name":"a","schedule":"every 1h","target":{"kind":"noop"}}`
	items := b.ndjson("/jobs:bulk", slices.Repeat([]string{line}, 1_500)...)["items"].([]any) // two transactions
	listed := 0
	for _, item := range items {
		listed += len(item.(map[string]any)["problem"].(map[string]any)["problems"].([]any))
	}
	require.Equal(t, 1_500+1_000, listed)
	require.Contains(t, items[1_499].(map[string]any)["problem"].(map[string]any)["detail"], "60 more are not listed")
}

// viewsAt is a store whose database has a time of its own.
type viewsAt struct {
	*pgtest.Store
	now time.Time
}

func (v viewsAt) Now(context.Context, uuid.UUID) (time.Time, error) { return v.now, nil }

func TestDiffUsesTheTimeOfTheDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := server.New(server.Options{
		Keys: b.store, Jobs: b.store, Verbs: b.store, Versions: b.store, Ledger: b.store, Load: b.store,
		Stories: b.store, DeadLetters: b.store, Logins: b.store, Operations: b.store, Queues: b.store, Cluster: b.store,
		Audit: b.store, Version: "test", Overview: b.store, Live: b.store,
		Views: viewsAt{b.store, time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)}, Log: slog.New(slog.DiscardHandler),
	})
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	b.url = web.URL + "/api/v1"
	got := b.ndjson("/jobs:diff", `{"name":"a","schedule":{"at":"2090-01-01T12:00:00Z"},"target":{"kind":"noop"}}`)
	require.EqualValues(t, 1, got["items"].([]any)[0].(map[string]any)["occurrences_after"])
}

func TestImportOfACrontab(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const tab = "# Nightly backup\n30 2 * * * /usr/bin/backup\n@reboot /bin/start\n" +
		"MAILTO=x@example.com\n0 9 * * 1 /bin/mail a%b\n"
	query := "?url=" + url.QueryEscape("https://runner.example.com/{name}") + "&timezone=Europe%2FBerlin&prefix=web1-"
	a := b.call("POST", "/imports:crontab"+query, tab, "Content-Type", "text/plain")
	require.Equal(t, 200, a.status, "%s", a.body)
	var got struct {
		Jobs     []json.RawMessage
		Lines    []int
		Problems []struct {
			Line          int
			Text, Problem string
		}
		Notes []string
	}
	require.NoError(t, json.Unmarshal(a.body, &got))
	require.Len(t, got.Jobs, 2)
	require.Equal(t, []int{2, 5}, got.Lines)
	require.Len(t, got.Problems, 1)
	require.Equal(t, 3, got.Problems[0].Line)
	require.Equal(t, "@reboot /bin/start", got.Problems[0].Text)
	require.Contains(t, got.Problems[0].Problem, "@reboot is not a time")
	require.Len(t, got.Notes, 1)

	// What it returns is what the other operations take.
	lines := []string{string(got.Jobs[0]), string(got.Jobs[1])}
	require.EqualValues(t, 2, b.ndjson("/jobs:diff", lines...)["created"])
	require.EqualValues(t, 2, b.ndjson("/jobs:bulk", lines...)["created"])
	require.EqualValues(t, 2, b.ndjson("/jobs:diff", lines...)["unchanged"])
	made := b.call("GET", "/jobs/web1-nightly-backup", "").json(t)
	require.Equal(t, map[string]any{"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, made["schedule"])
	require.Equal(t, "https://runner.example.com/web1-nightly-backup",
		made["target"].(map[string]any)["config"].(map[string]any)["url"])

	for query, body := range map[string]string{
		"":                                 tab,
		query + "x&timezone=Mars/Base":     tab,
		"?url=http://x&timezone=Mars/Base": tab,
		"?url=http://x":                    "0 0 * * * root /bin/true\n",
	} {
		a := b.call("POST", "/imports:crontab"+query, body, "Content-Type", "text/plain")
		require.Equal(t, 422, a.status, "%s: %s", query, a.body)
	}
}

// TestImportIsBounded: a small crontab must not become a large answer.
func TestImportIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	viewer := b.newKey(defaultNamespace, access.Viewer)
	send := func(query, tab string) answer {
		return b.callAs(viewer, "POST", "/imports:crontab?url="+query, tab, "Content-Type", "text/plain")
	}
	const line = "0 * * * * /bin/true\n"
	secret := "A=" + strings.Repeat("x", 100_000) + "\n"
	a := send("http://x", secret+strings.Repeat(line, 200))
	require.Equal(t, 413, a.status, "%d bytes", len(a.body))
	require.Contains(t, string(a.body), "send the lines in parts")
	require.Contains(t, string(a.body), "line 85:")

	a = send("http://x/"+strings.Repeat("%7Bname%7D", 300), strings.Repeat("# "+strings.Repeat("long ", 12)+"\n"+line, 2_000))
	require.Equal(t, 413, a.status, "%d bytes", len(a.body))
	require.Contains(t, string(a.body), "send the lines in parts")

	a = send("http://x", strings.Repeat(line, 5_001))
	require.Equal(t, 413, a.status, "%s", a.body)
	require.Contains(t, string(a.body), "line 5001")

	a = send("http://x", strings.Repeat("\x01", 200_000)+"=1\n"+line+"A="+strings.Repeat("\x01", 200_000)+"\n"+line)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Contains(t, string(a.body), "at most 262144 are taken", "as JSON it is larger")
}

// TestImportsWaitForTheirTurn: imports use the slots of bulks.
func TestImportsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{Bulks: 2})
	release := b.block("job")
	defer release()
	held := b.heldBulk(b.key, "a", 1)
	a := b.call("POST", "/imports:crontab?url=http://x", "0 * * * * /bin/true\n", "Content-Type", "text/plain")
	require.Equal(t, 429, a.status, "%s", a.body)
	release()
	require.Equal(t, 200, (<-held).status)
}
