package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	for _, empty := range []string{"", "---\n# nothing\n", "[]"} {
		for _, command := range []string{"apply", "diff"} {
			s := a.Belfry(empty, command, "-f", "-")
			require.ErrorContains(t, s.Failure, "-f -: the file has no jobs; write one, or leave the file out")
			require.Equal(t, 2, cli.ExitCode(s.Failure))
		}
	}
	s := a.Belfry("", "apply", "-f", "/nonexistent.yaml")
	require.ErrorContains(t, s.Failure, "the file cannot be read: open /nonexistent.yaml")
}

// diff reports what the server would refuse, with the words of apply.
func TestDiffValidates(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	a.Good("job", "create", "there", "--every", "1h", "--target", "noop")
	for change, want := range map[string][]string{
		"schedule: {cron: 0 2 * * *, timezone: Mars/Base}": {"schedule.timezone", "use an IANA name"},
		"schedule: every 1h, retry: {max_attempts: 0}":     {"retry.max_attempts", "use 1 or more"},
		"schedule: every 1h, retry: {max_atempts: 2}":      {"retry.max_atempts", "did you mean max_attempts?"},
		"schedule: every 1h, timeout: 30":                  {"timeout: it is not a string", `a duration with its unit: "30s"`},
		"schedule: every 1h, retry: {base: -1s}":           {"retry.base", "it is negative"},
		"schedule: every 1h, priorty: 3":                   {"priorty", "did you mean priority?"},
		"schedule: sometimes":                              {"schedule.cron", "every 15m"},
	} {
		for _, name := range []string{"new", "there"} {
			file := "{name: " + name + ", target: {kind: noop}, " + change + "}\n"
			s := a.Belfry(file, "diff", "-f", "-")
			require.Error(t, s.Failure, file)
			require.Equal(t, 2, cli.ExitCode(s.Failure))
			applied := a.Belfry(file, "apply", "-f", "-")
			require.Error(t, applied.Failure, file)
			for _, part := range append(want, "standard input line 1", name) {
				require.ErrorContains(t, s.Failure, part, file)
				require.Contains(t, applied.Err, part, file)
			}
		}
	}
	s := a.Belfry(`- {name: a, target: {kind: noop}, schedule: every 1h, timeout: 30}
- {name: b, target: {kind: noop}, schedule: 61 * * * *}
- {name: c, target: {kind: noop}, schedule: every 1h}`, "diff", "-f", "-")
	require.ErrorContains(t, s.Failure, "line 1: a: The request is not valid\n  timeout: it is not a string")
	require.ErrorContains(t, s.Failure, "line 2: b: The request is not valid\n  schedule.cron")

	s = a.Belfry(`- name: a
  target: {kind: noop}
  schedule: {cron: 61 * * * *}
- name: b
  schedule:
    every: 1h
    calendars:
      - dates: [2026-12-25]
      - dates:
          - never
  target: {kind: noop}
- name: c
  schedule: every 1h
  target: {kind: noop}
  priorty: 3
`, "apply", "-f", "-")
	require.Contains(t, s.Err, "standard input line 1: The request is not valid\n  schedule.cron (line 3): ")
	require.Contains(t, s.Err, "standard input line 4: The request is not valid\n")
	require.Contains(t, s.Err, "\n  priorty (line 15): ")
	require.Contains(t, s.Err, "calendars[1].dates (line 10): ")
}

// Several files, as a shell expands jobs/*.yaml, and directories are read as one.
func TestFilesAndDirectories(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "a", "b.yml": "b", "c.yaml": "c", "notes.txt": "d: ["} {
		text = fmt.Sprintf("{name: %s, schedule: every 1h, target: {kind: noop}}", text)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	a.Good("apply", "-f", filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yml"))
	require.ElementsMatch(t, []string{"a", "b"}, strings.Fields(a.Good("job", "list", "-o", "name")))
	require.Contains(t, a.Good("diff", "-f", dir), "create    c")
	a.Good("apply", "-f", dir)
	require.ElementsMatch(t, []string{"a", "b", "c"}, strings.Fields(a.Good("job", "list", "-o", "name")))
	require.ErrorContains(t, a.Belfry("", "apply", "-f", t.TempDir()).Failure, "has no .yaml or .yml files")
}
