package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain Grüße 日本 👩‍🚀":     "plain Grüße 日本 👩‍🚀",
		"\x1b[31mred\x1b[0m":     `\x1b[31mred\x1b[0m`,
		"a\r\nb\tc\x00\x7f":      `a\r\nb\tc\x00\x7f`,
		"\u009b2J \u202egnp.exe": `\u009b2J \u202egnp.exe`,
		"\xff\u2028":             `\ufffd\u2028`,
	} {
		require.Equal(t, want, clean(text))
	}
	require.Equal(t, "a\n  b\\r", cleanLines("a\n  b\r"))
	raw := json.RawMessage("{\"a\":\"\u009b2J\\u001b\"}")
	require.JSONEq(t, string(raw), string(escapeJSON(raw)))
	require.NotContains(t, string(escapeJSON(raw)), "\u009b")
}

// Whatever users and targets wrote, no command prints it raw.
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const nasty = "\x1b]0;owned\a\x1b[2J\u009b31m\u202e\r"
	a.good("job", "create", "report", "--every", "1h", "--url", "https://example.com/x", "--payload", `{"x":"\u001b[2J`+"\u009b"+`"}`, "--label", "team=web")
	a.good("job", "pause", "report", "--note", nasty)
	a.good("queue", "pause", "default", "--note", nasty)
	a.belfry("", "key", "create", nasty, "--role", "viewer")
	run := strings.Fields(a.good("job", "trigger", "report", "--payload", `"\u001b[2J"`))[1]
	for _, command := range []string{
		"job get report", "job list", "job runs report", "run list --state pending", "run get " + run, "queue list", "key list", "why report", "dlq list",
	} {
		for _, output := range []string{"table", "json", "yaml"} {
			out := a.good(append(strings.Fields(command), "-o", output)...)
			require.False(t, strings.ContainsFunc(strings.ReplaceAll(out, "\n", ""), func(r rune) bool { return steers(r) && !(output == "yaml" && r > 0x9f) }), "%s -o %s: %q", command, output, out) //nolint:staticcheck // YAML has its own rule for marks
		}
	}
	for _, args := range [][]string{{"job", "get", nasty}, {"job", "delete", nasty}, {"job", "pause", nasty}, {"why", nasty}, {"job", "create", nasty, "--every", "1h", "--url", "http://x.y"}, {"run", "cancel", nasty}} {
		s := a.belfry("", args...)
		require.Error(t, s.failure)
		require.NotContains(t, cleanLines(s.failure.Error())+s.out+s.err, "\x1b")
	}
	s := a.belfry(`[{name: "bad\e[2J", schedule: x, target: {kind: noop}}, {name: "a\e[2J", schedule: every 1h, target: {kind: noop}, nonsense: 1}]`, "apply", "-f", "-")
	require.Error(t, s.failure)
	require.NotContains(t, s.out+s.err, "\x1b")
}

func TestLayout(t *testing.T) {
	t.Parallel()
	headers := []string{"NAME", "STATE", "WHY", "RUN"}
	rows := [][]string{
		{"日本の仕事", green.Render("active"), "a reason that is quite long, as reasons are", "run_0123456789"},
		{"b", "x", "-", "run_1"},
	}
	wide := layout(headers, rows, 0)
	require.Len(t, wide, 3)
	require.Equal(t, 10+2+6+2+43+2, strings.Index(wide[2], "run_1"), "aligned, and colours and wide characters count as they are seen")
	require.NotContains(t, strings.Join(wide, "\n"), " \n", "no spaces at the end")
	for _, width := range []int{80, 60, 50} {
		lines := layout(headers, rows, width)
		require.Len(t, lines, 3)
		require.Contains(t, lines[1], "run_0123456789", "ids are not cut")
		require.Contains(t, lines[1], "active")
	}
	require.Contains(t, layout(headers, rows, 60)[1], "…")
	two := layout(headers, rows, 40)
	require.Len(t, two, 5, "ids on lines of their own")
	require.Contains(t, two[2], "run_0123456789")
	narrow := layout(headers, rows, 20)
	require.Len(t, narrow, 9, "a block of lines for each row")
	require.Contains(t, narrow[2], "a reason that is quite long, as reasons are")

	fewer := layout([]string{"ID", "STATE", "BY"}, [][]string{{"key_0123456789", "active", "somebody"}}, 25)
	require.Equal(t, []string{"ID              STATE", "key_0123456789  active"}, []string{regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(fewer[0], ""), fewer[1]})
	require.Contains(t, fewer[2], "left out: BY")
}
