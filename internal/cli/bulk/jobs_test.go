package bulk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

func TestManyJobs(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	a.Operate()
	for i := range 4 {
		a.Good("job", "create", fmt.Sprintf("job-%d", i), "--cron", "0 * * * *", "--target", "noop",
			"--label", fmt.Sprintf("team=t%d", i%2))
	}
	out := a.Good("job", "pause", "--label", "team=t1", "--dry-run")
	require.Contains(t, out, "2 match; nothing was changed")
	require.Regexp(t, `job-1 +active`, out)
	require.Contains(t, a.Good("job", "pause", "--label", "team=t1", "--note", "moved"), "pause: finished, 2 of 2 done, 0 failed")
	require.Contains(t, a.Good("job", "get", "job-1"), "moved")
	require.Contains(t, a.Good("job", "resume", "--state", "paused"), "resume: finished, 2 of 2 done")
	require.Contains(t, a.Good("job", "trigger", "--all", "--rate", "1000"), "trigger: finished, 4 of 4 done")
	// Runs are counted for a bounded time: on a busy machine there are "more than" some.
	require.Regexp(t, `^(1|more than \d) match`, a.Good("run", "cancel", "--job", "job-1", "--dry-run"))
	require.Regexp(t, `cancel: finished, 4 of (4|more than \d) done`, a.Good("run", "cancel", "--all", "--yes"))
	require.Contains(t, a.Good("job", "relabel", "--name", "job", "--set", "env=prod", "--remove", "team"), "4 of 4 done")
	require.Contains(t, a.Good("job", "spread", "--all", "--dry-run"), "4 would change; the busiest minute")
	out = a.Good("job", "spread", "--label", "env=prod")
	require.Contains(t, out, "spread: finished, 4 of 4 done")
	_, command, _ := strings.Cut(out, "belfry operation undo")
	undo := append([]string{"belfry", "operation", "undo"}, strings.Fields(command)...)
	require.Contains(t, a.Good(append(undo[1:], "--dry-run")...), "4 match; nothing was changed")
	require.Contains(t, a.Good(undo[1:]...), "undo: finished, 4 of 4 done, 0 failed")
	require.Contains(t, a.Good("job", "get", "job-1"), "0 * * * *")
	for verb, args := range map[string][]string{
		"cancel 4 runs": {"run", "cancel", "--all"}, "delete 4 jobs": {"job", "delete", "--label", "env=prod"},
	} {
		a.Good("job", "trigger", "--all", "--rate", "1000")
		s := a.Belfry("y\n", args...) // not a terminal
		require.ErrorContains(t, s.Failure, "nothing was changed. Repeat with --yes", verb)
		require.Contains(t, a.Good("job", "list", "-o", "name"), "job-1\n")
	}
	require.Contains(t, a.Good("job", "delete", "--name", "job", "-o", "json", "--yes"), `"done": 4`)
	require.Contains(t, a.Good("job", "delete", "--all"), "no jobs: there is nothing to delete")
	require.Contains(t, a.Belfry("", "operation", "items", "op_x").Failure.Error(), "op_x")

	for _, args := range [][]string{
		{"pause"},
		{"pause", "job-1", "--all"},
		{"pause", "job-1", "--dry-run"},
		{"resume", "--all", "--rate", "0"},
		{"trigger", "--all", "--payload", "{}"},
		{"relabel", "--set", "a=b"},
		{"spread"},
	} {
		s := a.Belfry("", append([]string{"job"}, args...)...)
		require.Error(t, s.Failure, "%v", args)
		require.Equal(t, 2, cli.ExitCode(s.Failure), "%v: %v", args, s.Failure)
	}
}
