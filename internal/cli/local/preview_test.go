package local_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme runs the README's first example and compares the output.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	const example = "bin/belfry preview '30 2 * * *' --tz America/New_York --from 2026-03-06 -n 4\n```\n\n```output\n"
	_, after, ok := strings.Cut(string(readme), example)
	require.True(t, ok, "the example is not in the README")
	want, _, _ := strings.Cut(after, "```")
	got, err := run(t, "preview", "30 2 * * *", "--tz", "America/New_York", "--from", "2026-03-06", "-n", "4")
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestPreviewMarks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args string
		want []string
	}{
		{"skipped in a gap", "30 2 * * *|--gap=skip|--tz=America/New_York|--from=2026-03-07T12:00|-n=1", []string{
			"  ·  Sun 2026-03-08 02:30:00       skipped (dst_gap): this time does not exist," +
				" clocks go from 02:00 to 03:00",
			"  1  Mon 2026-03-09 02:30:00 EDT   2026-03-09 06:30:00",
		}},
		{"doubled", "30 1 * * *|--fold=both|--tz=America/New_York|--from=2026-11-01|-n=2", []string{
			"  1  Sun 2026-11-01 01:30:00 EDT   2026-11-01 05:30:00  this time happens twice: first pass",
			"  2  Sun 2026-11-01 01:30:00 EST   2026-11-01 06:30:00  this time happens twice: second pass",
		}},
		{"many skipped", `{"cron":"* * * * *","calendars":[{"windows":["09:00-10:00"]}]}` +
			`|--from=2026-01-01T08:59:30|-n=1`, []string{
			"  ·  Thu 2026-01-01 09:00:00 UTC   skipped (calendar)",
			"  ·  … and 57 more skipped",
			"  1  Thu 2026-01-01 10:00:00 UTC   2026-01-01 10:00:00",
		}},
		{"thousands skipped", `{"every":"1s","calendars":[{"windows":["22:00-06:00"]}]}` +
			`|--from=2026-01-01T21:59:59|-n=2`, []string{
			"  1  Thu 2026-01-01 21:59:59 UTC   2026-01-01 21:59:59",
			"  ·  … and more than 997 more skipped",
			"  2  Fri 2026-01-02 06:00:00 UTC   2026-01-02 06:00:00",
		}},
		{"jitter is told", `{"cron":"@daily","jitter":"5m"}|--from=2026-01-01|-n=1`, []string{
			"  1  Thu 2026-01-01 00:00:00 UTC   2026-01-01 00:00:00",
			"     each run starts up to 5m later (jitter)",
		}},
		{"the end", "2027-01-01T00:00:00Z|--from=2026-01-01", []string{
			"  1  Fri 2027-01-01 00:00:00 UTC   2027-01-01 00:00:00",
			"     no further occurrence",
		}},
		{"H is resolved", "H 2 * * *|--key=a|-n=1|--from=2026-01-01", []string{"cron 41 2 * * * in UTC"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, append([]string{"preview"}, strings.Split(tc.args, "|")...)...)
			require.NoError(t, err)
			for _, line := range tc.want {
				require.Contains(t, out, line+"\n")
			}
		})
	}
}

func TestPreviewJSON(t *testing.T) {
	t.Parallel()
	out, err := run(t, "preview", "30 2 * * *", "--tz", "America/New_York", "--from", "2026-03-07T12:00",
		"-n", "1", "-o", "json")
	require.NoError(t, err)
	require.JSONEq(t, `{
		"schedule": {"cron": "30 2 * * *", "timezone": "America/New_York"},
		"words": "at 02:30 every day, America/New_York",
		"occurrences": [{
			"due_at": "2026-03-08T07:00:00Z", "local": "2026-03-08T03:00:00-04:00",
			"mark": "shifted", "nominal": "2026-03-08T02:30:00"
		}]
	}`, out)
	require.True(t, json.Valid([]byte(out)))
}

func TestPreviewRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"30 2|*":        "preview takes one SCHEDULE, got 2; put it in quotes: belfry preview '30 2 * * *'",
		"@daily|-n=0":   "-n 0: use 1 to 1000",
		"@daily|-o=xml": "-o xml: use table, json or yaml",
		"@daily|--from=yesterday": `--from "yesterday" is not a time; write 2026-03-06, 2026-03-06T10:00 or` +
			` 2026-03-06T10:00:00Z`,
		"@daily|--from=9999-12-31": `--from "9999-12-31": use a year from 1970 to 2199`,
		"0 0 30 2 *": `cron: "0 0 30 2 *" never occurs; check that such a date exists (February has no day 30)` +
			` and lies before the end`,
		`{"cron"`: `the SCHEDULE begins with { but is not JSON (unexpected end of JSON input); check quotes and braces`,
		`{"crom":1}`: `schedule: unknown field "crom"; the fields of a schedule are at, every, anchor, cron, rrule,` +
			` timezone, dst, start_at, end_at, jitter, calendars (dates, weekdays, windows)`,
	} {
		_, err := run(t, append([]string{"preview"}, strings.Split(args, "|")...)...)
		require.EqualError(t, err, want)
	}
}
