package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/cli/files"
)

const twoJobs = `# a comment
name: report
labels: {team: finance}
schedule: {cron: 0 2 * * *, timezone: Europe/Berlin, calendars: [{dates: [2026-12-25, 12-31]}]}
target: {kind: http, config: {url: https://example.com/report}}
payload: {big: 12345678901234567890, on: true, text: "007"}
---
- name: ping
  schedule: every 15m
  target: {kind: noop}
`

func TestApply(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(twoJobs)
	require.Equal(t, "create    report\ncreate    ping\n", a.Good("diff", "-f", file))
	require.Equal(t, "created   report\ncreated   ping\n2 created, 0 changed, 0 unchanged, 0 refused\n",
		a.Good("apply", "-f", file))
	require.Contains(t, a.Good("apply", "-f", file), "2 unchanged")
	require.NoError(t, a.Belfry("", "diff", "-f", file, "--exit-code").Failure)
	require.Contains(t, a.Good("job", "get", "report", "-o", "json"), "12345678901234567890")

	// The output of get can be applied, and changes nothing.
	text := a.Good("job", "get", "report", "-o", "yaml")
	s := a.Belfry(text, "apply", "-f", "-")
	require.NoError(t, s.Failure)
	require.Contains(t, s.Out, "unchanged report")

	// Writing out a default is not a difference; removing a field is one.
	write(`{name: report, schedule: {cron: 0 3 * * *, timezone: Europe/Berlin},
target: {kind: http, config: {url: https://example.com/report}}, retry: {max_attempts: 3}, timeout: 30s}`)
	out := a.Good("diff", "-f", file)
	t.Log("\n" + out)
	require.Contains(t, out, `schedule.cron: "0 2 * * *" → "0 3 * * *"`)
	require.Contains(t, out, `labels: {"team":"finance"} → none`)
	require.NotContains(t, out, "retry")
	require.NotContains(t, out, "timeout")
	require.ErrorIs(t, a.Belfry("", "diff", "-f", file, "--exit-code").Failure, files.ErrDiffers)
	require.Contains(t, a.Good("apply", "-f", file), "changed   report")
	require.Contains(t, a.Good("apply", "-f", file), "unchanged report")

	// A rejected job does not prevent the others from being applied.
	s = a.Belfry(`- {name: bad, schedule: 61 * * * *, target: {kind: noop}}
- {name: good, schedule: every 1h, target: {kind: noop}}
- {name: typo, shedule: x}`, "apply", "-f", "-")
	t.Log("\n" + s.Out + s.Err)
	require.ErrorContains(t, s.Failure, "2 of 3 jobs were refused")
	require.Contains(t, s.Out, "created   good")
	require.Contains(t, s.Err, "schedule.cron")
	require.Contains(t, s.Err, "shedule")

	require.JSONEq(t, `[{"name": "report", "result": "unchanged"}]`, a.Good("apply", "-f", file, "-o", "json"))
}

func TestFilesOfJobs(t *testing.T) {
	t.Parallel()
	a := &clitest.API{T: t, NewRoot: cli.New, URL: "http://127.0.0.1:1", Key: "bfk_x"} // none of these calls it
	for text, want := range map[string]string{
		"{name: a}\n---\n{name: a}":      "also in standard input line 1",
		"- {schedule: x}":                "line 1: the job has no name",
		"hello":                          "not a job",
		"- hello":                        "not a job",
		"{name: 7}":                      "the name is not a string",
		"{name: a, name: b}":             "name is there twice",
		"{name: a, <<: {}}":              "<< is not supported",
		"{name: a, payload: .nan}":       "line 1",
		"{name: a, payload: !!binary x}": "not supported",
		"name: [":                        "line 1",
	} {
		require.ErrorContains(t, a.Belfry(text, "apply", "-f", "-").Failure, want, text)
	}
	require.NoError(t, a.Belfry("---\n# nothing\n", "apply", "-f", "-").Failure)
}
