package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
)

// No command prints control characters that users or targets wrote.
func TestNoCommandPrintsControlCharacters(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New)
	const nasty = "\x1b]0;owned\a\x1b[2J\u009b31m\u202e\r"
	a.Good("job", "create", "report", "--every", "1h", "--url", "https://example.com/x", "--label", "team=web",
		"--payload", `{"x":"\u001b[2J`+"\u009b"+`"}`)
	a.Good("job", "pause", "report", "--note", nasty)
	a.Good("queue", "pause", "default", "--note", nasty)
	a.Belfry("", "key", "create", nasty, "--role", "viewer")
	run := strings.Fields(a.Good("job", "trigger", "report", "--payload", `"\u001b[2J"`))[1]
	for _, command := range []string{
		"job get report", "job list", "job runs report", "run list --state pending", "run get " + run,
		"queue list", "key list", "why report", "dlq list",
	} {
		for _, output := range []string{"table", "json", "yaml"} {
			out := a.Good(append(strings.Fields(command), "-o", output)...)
			raw := strings.ContainsFunc(strings.ReplaceAll(out, "\n", ""), func(r rune) bool {
				marksInYAML := output == "yaml" && r > 0x9f // YAML has its own rule for marks
				return terminal.Clean(string(r)) != string(r) && !marksInYAML
			})
			require.False(t, raw, "%s -o %s: %q", command, output, out)
		}
	}
	for _, args := range [][]string{
		{"job", "get", nasty},
		{"job", "delete", nasty},
		{"job", "pause", nasty},
		{"why", nasty},
		{"job", "create", nasty, "--every", "1h", "--url", "http://x.y"},
		{"run", "cancel", nasty},
	} {
		s := a.Belfry("", args...)
		require.Error(t, s.Failure)
		require.NotContains(t, terminal.CleanLines(s.Failure.Error())+s.Out+s.Err, "\x1b")
	}
	s := a.Belfry(`- {name: "bad\e[2J", schedule: x, target: {kind: noop}}
- {name: "a\e[2J", schedule: every 1h, target: {kind: noop}, nonsense: 1}`, "apply", "-f", "-")
	require.Error(t, s.Failure)
	require.NotContains(t, s.Out+s.Err, "\x1b")
}
