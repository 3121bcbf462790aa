package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
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
	a := newAPI(t)
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(twoJobs)
	require.Equal(t, "created   report\ncreated   ping\n", a.good("diff", "-f", file))
	require.Equal(t, "created   report\ncreated   ping\n2 created, 0 changed, 0 unchanged, 0 refused\n", a.good("apply", "-f", file))
	require.Contains(t, a.good("apply", "-f", file), "2 unchanged")
	require.NoError(t, a.belfry("", "diff", "-f", file, "--exit-code").failure)
	require.Contains(t, a.good("job", "get", "report", "-o", "json"), "12345678901234567890")

	// What get prints can be applied, and is the same.
	text := a.good("job", "get", "report", "-o", "yaml")
	s := a.belfry(text, "apply", "-f", "-")
	require.NoError(t, s.failure)
	require.Contains(t, s.out, "unchanged report")

	// A default that is written out is no difference; a field that is taken out is one.
	write(`{name: report, schedule: {cron: 0 3 * * *, timezone: Europe/Berlin}, target: {kind: http, config: {url: https://example.com/report}}, retry: {max_attempts: 3}, timeout: 30s}`)
	out := a.good("diff", "-f", file)
	t.Log("\n" + out)
	require.Contains(t, out, `schedule.cron: "0 2 * * *" → "0 3 * * *"`)
	require.Contains(t, out, `labels: {"team":"finance"} → none`)
	require.NotContains(t, out, "retry")
	require.NotContains(t, out, "timeout")
	require.ErrorIs(t, a.belfry("", "diff", "-f", file, "--exit-code").failure, errDiffers)
	require.Contains(t, a.good("apply", "-f", file), "changed   report")
	require.Contains(t, a.good("apply", "-f", file), "unchanged report")

	// One that is refused does not keep the others from being applied.
	s = a.belfry(`[{name: bad, schedule: 61 * * * *, target: {kind: noop}}, {name: good, schedule: every 1h, target: {kind: noop}}, {name: typo, shedule: x}]`, "apply", "-f", "-")
	t.Log("\n" + s.out + s.err)
	require.ErrorContains(t, s.failure, "2 of 3 jobs were refused")
	require.Contains(t, s.out, "created   good")
	require.Contains(t, s.err, "schedule.cron")
	require.Contains(t, s.err, "shedule")

	var results []applied
	require.NoError(t, json.Unmarshal([]byte(a.good("apply", "-f", file, "-o", "json")), &results))
	require.Equal(t, []applied{{Name: "report", Result: unchanged}}, results)
}

func TestFilesOfJobs(t *testing.T) {
	t.Parallel()
	a := &api{t, "http://127.0.0.1:1", "bfk_x"} // none of these gets so far as to call it
	for text, want := range map[string]string{
		"{name: a}\n---\n{name: a}":      "also in standard input line 1",
		"- {schedule: x}":                "line 1: the job has no name",
		"hello":                          "not a job",
		"- hello":                        "not a job",
		"{name: 7}":                      "the name is not a text",
		"{name: a, name: b}":             "name is there twice",
		"{name: a, <<: {}}":              "<< is not supported",
		"{name: a, payload: .nan}":       "line 1",
		"{name: a, payload: !!binary x}": "not supported",
		"name: [":                        "line 1",
	} {
		require.ErrorContains(t, a.belfry(text, "apply", "-f", "-").failure, want, text)
	}
	require.NoError(t, a.belfry("---\n# nothing\n", "apply", "-f", "-").failure)
}

// FuzzYAML: what goes from JSON to YAML and back is the same.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,1.5,-0.0,1e400,12345678901234567890,true,null,"x",{},[]],"b":{"2026-01-01":"2026-01-01","y":"no","n":"~"}}`,
		`"\u0000\ud83d\ude00\n \t#: - "`, `["0x10","0o7","1_000","<<","=","1:30",".inf","null",""," x "]`, `7`, `{"":{"":""}}`, `"\u2028\u0085"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			t.Skip()
		}
		out, err := yamlOf([]byte(text))
		if err != nil {
			t.Skip() // a key that is there twice, or too deep
		}
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal(out, &n), "%s", out)
		back, err := jsonOf(&n)
		if err != nil {
			t.Skip()
		}
		require.Equal(t, exact(t, text), exact(t, string(back)), "%s", out)
	})
}

// exact is JSON with each number as it was written.
func exact(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}
