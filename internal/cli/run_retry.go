package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

func newRunRetry() *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry [RUN]", Short: "Run an ended run, or all of a window, again", Args: usage.Args(0, 1),
		Long: `Run an ended run again, under its old id: its target gets the same idempotency key
as before.

Without a run, the server runs all that the filters leave again in the background, at
--rate per second: for a target that has lost what it had, such as a broker that was
wiped. Say in which --state they ended, and from when. Runs that ended again since are
left out. A run whose job is deleted, or that is already live, counts as failed. belfry
operation items lists them.`,
		Example: `  belfry run retry run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000
  belfry run retry --state succeeded --ended-from 2026-01-31T08:00:00Z --ended-to 2026-01-31T09:30:00Z --queue events`,
	}
	manyRuns(cmd, "retry", terminal.Green.Render("runs again"), func(f *runFilter) error {
		live := slices.ContainsFunc(f.states.Values(), func(s string) bool { return slices.Contains(liveStates, s) })
		if f.states.String() == "" || live || f.dueFrom+f.endedFrom == "" {
			return usage.Errorf("which ones? Name a run, or say how they ended (--state succeeded)" +
				" and from when (--ended-from or --due-from)")
		}
		return nil
	})
	return cmd
}
