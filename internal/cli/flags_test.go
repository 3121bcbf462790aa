package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

// Each flag sets its field of the job.
func TestFlagsOfAJob(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	a.Good("job", "create", "x",
		"--cron", "30 2 * * *", "--url", "https://example.com/", "--tz", "Europe/Berlin",
		"--start-at", "2098-01-01T00:00:00Z", "--end-at", "2099-01-01T00:00:00Z", "--jitter", "30s",
		"--gap", "skip", "--fold", "both", "--queue", "imports", "--overlap", "queue_all", "--timeout", "1m",
		"--deadline", "2m", "--delivery", "at_most_once", "--priority", "7", "--max-attempts", "8",
		"--backoff", "linear", "--retry-base", "2s", "--retry-cap", "3m", "--missed", "all",
		"--catch-up-window", "3h", "--max-missed", "11", "--missed-paused", "once", "--pause-after-failures", "4",
		"--keep-finished-for", "2d", "--header", "X-Team: billing", "--concurrency-key", "cust-7",
		"--concurrency-max", "3", "--idempotency-key", `"inv/" + string(due_at)`, "--report-timeout", "2h")
	got := a.Good("job", "get", "x", "-o", "yaml")
	for _, want := range []string{
		"timezone: Europe/Berlin", `start_at: "2098-01-01T00:00:00Z"`, `end_at: "2099-01-01T00:00:00Z"`,
		"jitter: 30s", "gap: skip", "fold: both", "queue: imports", "overlap: queue_all", "timeout: 1m",
		"deadline: 2m", "delivery: at_most_once", "priority: 7", "max_attempts: 8",
		"backoff: linear", "base: 2s", "cap: 3m", "policy: all", "catch_up_window: 3h", "max: 11", "paused: once",
		"pause_after_failures: 4", "keep_finished_for: 2d",
	} {
		require.Contains(t, got, want)
	}
	page := a.Good("job", "get", "x")
	t.Log("\n" + page)
	for _, want := range []string{
		"30 2 * * * in Europe/Berlin, from 2098-01-01 01:00:00, until 2099-01-01 01:00:00," +
			" jitter 30s, gap skip, fold both",
		"8 attempts, linear from 2s to 3m, jitter 0.2",
		"all, at most 11, 1s apart, within 3h; after a pause: once",
		`{"headers":{"X-Team":"billing"}}`, "at most 3 with the key cust-7", `"inv/" + string(due_at)`, "2h",
	} {
		require.Contains(t, page, want)
	}
	// A date is its first minute in the zone.
	a.Good("job", "create", "once", "--at", "2099-01-31", "--tz", "Europe/Berlin", "--url", "https://example.com/")
	page = a.Good("job", "get", "once")
	for _, want := range []string{"Sat 2099-01-31 00:00:00 CET", "if it was created too late: once", "1d after it ran"} {
		require.Contains(t, page, want)
	}
	require.ErrorContains(t, a.Belfry("", "job", "list", "--label", "team").Failure, "write for example team=billing")
	// Another kind of schedule keeps the bounds.
	a.Good("job", "edit", "x", "--every", "1h")
	got = a.Good("job", "get", "x", "-o", "yaml")
	require.Contains(t, got, "every: 1h")
	require.Contains(t, got, `end_at: "2099-01-01T00:00:00Z"`)
	require.NotContains(t, got, "cron")

	// Wrong values of flags are reported before any request.
	gone := &clitest.API{T: t, NewRoot: New, URL: "http://127.0.0.1:1", Key: "bfk_x"}
	for wrong, want := range map[string]string{
		"job create x --every 1h --url y --overlap never": "use skip, queue, queue_all, allow or replace",
		"job list --state actve":                          "use active, paused or finished",
		"run list --state failed,broken":                  "use pending, retrying, due",
		"job list --due-from tomorrow":                    "write 2026-01-31, 2026-01-31T09:00",
		"key create x --role boss":                        "use viewer, operator, editor, admin or worker",
		"preview @daily -o xml":                           "use table, json or yaml",
		"job list --limit -1":                             "--limit -1 is negative; use 1 or more, or 0 for all",
		"run list --limit -1":                             "--limit -1 is negative; use 1 or more, or 0 for all",
		"job list extra":                                  `takes no arguments, got "extra"`,
		"job pause":                                       "which ones? Use names, a filter such as --queue, or --all",
		"apply jobs.yaml":                                 "is a flag missing before it?",
		"job rollback x --to -1":                          "--to -1 is no version; they begin with 1",
		"dlq redrive --all --rate 0":                      "--rate 0 is less than 1; use 1 or more per second",
		"run get run_06gu5":                               "is too short for a run: write at least 26 characters",
		"job create x --every 1h --url y --allow-past":    "--allow-past is only for --at; leave it out",
		"job create x --every 1h --url y --payload @/no":  "the file of @/no cannot be read",
		"job create x --every 1h --cron @daily --url y":   "a job has one schedule; use one of --cron",
		"job create x --every 1h --url y --label team":    "--label team: write key=value",
		"job create x --every 1h --url y --header X":      "--header X: write 'Name: value'",
		"job create x --every 1h --url y --payload {":     "--payload is not JSON at character 1: unexpected end",
		"job create x --every 1h --url y --payload {a:1}": "--payload is not JSON at character 2: invalid character 'a'",
		"job create x --cron 0 2 * * * --url y":           "put the cron expression in quotes",
		"dlq redrive":                                     "which ones? Name runs, or use --job",
		"apply":                                           "which file?",
		"apply -f /nonexistent":                           "the file cannot be read",
		"import crontab - --tz Mars/Base --url http://x":  "--tz Mars/Base: there is no such zone",
	} {
		s := gone.Belfry("", strings.Fields(wrong)...)
		if strings.HasPrefix(wrong, "preview") {
			_, s.Failure = clitest.Run(t, New, strings.Fields(wrong)...)
		}
		require.ErrorContains(t, s.Failure, want, wrong)
		require.Equal(t, 2, ExitCode(s.Failure), wrong)
	}
}
