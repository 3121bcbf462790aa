package local

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/job"
)

func newRestore() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore", Short: "Show and accept a restore of the database to an earlier time",
		Long: `A database that was restored to an earlier time has forgotten what was delivered
since. Nodes notice it when they start. They run what is due from then on, and hold
what was due before, because it may have been delivered in the forgotten time.
Decide about it with accept. Both commands need a database URL: that of the nodes
is enough.`,
		Example: `  belfry restore status
  belfry restore accept
  belfry restore accept --occurrences skip`,
	}
	usage.Group(cmd, newRestoreStatus(), newRestoreAccept())
	for _, c := range cmd.Commands() {
		databaseFlags(c.Flags())
	}
	return cmd
}

// restoreView is a restore in the output for programs.
type restoreView struct {
	From        *time.Time            `json:"from"` // null: the database was never restored
	Until       *time.Time            `json:"until"`
	Held        bool                  `json:"held"`
	Occurrences []job.HeldOccurrences `json:"occurrences"`
	More        bool                  `json:"more"`
}

func viewRestore(r job.Restore) restoreView {
	v := restoreView{Held: r.Held, Occurrences: r.Occurrences, More: r.More}
	if !r.Until.IsZero() {
		v.From, v.Until = &r.From, &r.Until
	}
	return v
}

func newRestoreStatus() *cobra.Command {
	var output *string
	cmd := &cobra.Command{
		Use: "status", Short: "Show the last restore of the database, and whether runs are held", Args: noArgs,
		Example: `  belfry restore status
  belfry restore status -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckOutput(*output); err != nil {
				return err
			}
			r, err := readRestore(cmd)
			if err != nil {
				return err
			}
			if *output == usage.Table {
				return printRestore(cmd, r)
			}
			return terminal.WriteValue(cmd.OutOrStdout(), *output, viewRestore(r))
		},
	}
	output = usage.OutputFlag(cmd.Flags())
	return cmd
}

func readRestore(cmd *cobra.Command) (job.Restore, error) {
	v, err := loadConfig(cmd)
	if err != nil {
		return job.Restore{}, err
	}
	return app.Restore(cmd.Context(), v.DatabaseURL)
}

func printRestore(cmd *cobra.Command, r job.Restore) error {
	text := "The database was never restored to an earlier time, as far as nodes noticed."
	switch {
	case r.Held:
		text = fmt.Sprintf("The database was restored to %s. Nodes noticed it at %s.\n"+
			"What was due until then is held: it may have been delivered in the forgotten time.\n"+
			"List it, then decide:\n"+
			"  belfry restore accept --occurrences list\n"+
			"  belfry restore accept --occurrences skip --noticed %[2]s\n"+
			"  belfry restore accept --occurrences run --noticed %[2]s",
			format(r.From), format(r.Until))
	case !r.Until.IsZero():
		text = fmt.Sprintf("The database was restored to %s. Nodes noticed it at %s. It is accepted: nothing is held.",
			format(r.From), format(r.Until))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

func format(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func newRestoreAccept() *cobra.Command {
	var occurrences, noticed string
	cmd := &cobra.Command{
		Use: "accept", Short: "Decide about the runs that a restore of the database holds", Args: noArgs,
		Long: `Decide about what was due in the time that the restored database has forgotten.

  list   print it and change nothing
  skip   none of it runs; each is skipped with the reason restored
  run    the missed policies of the jobs decide, as after an outage; what runs has
         the same idempotency key as before and a higher attempt number

With --noticed, the command refuses to act if nodes have noticed another restore since,
which may hold more than you have looked at. belfry restore status prints the time.

To run only a part, keep the list and skip. Then run the rest again: belfry run retry
--reason restored for what has a run, belfry job backfill for times that have none.`,
		Example: `  belfry restore accept
  belfry restore accept --occurrences skip`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch occurrences {
			case "list":
				return listHeld(cmd)
			case "skip", "run":
				return acceptRestore(cmd, occurrences == "run", noticed)
			}
			return fmt.Errorf("--occurrences %q: use list, skip or run", occurrences)
		},
	}
	cmd.Flags().StringVar(&occurrences, "occurrences", "list", "what to do: list, skip or run")
	usage.TimeFlag(cmd.Flags(), &noticed, "noticed", "when nodes noticed the restore to decide about")
	return cmd
}

func listHeld(cmd *cobra.Command) error {
	r, err := readRestore(cmd)
	if err == nil && !r.Held {
		err = job.ErrNotHeld
	}
	if err != nil {
		return err
	}
	rows := make([][]string, len(r.Occurrences))
	for i, o := range r.Occurrences {
		runs := strconv.FormatInt(o.Runs, 10)
		if o.Planned {
			runs = "up to " + strconv.FormatInt(o.Count, 10)
		}
		rows[i] = []string{
			o.Namespace, o.Job, o.From.Format(time.RFC3339), o.To.Format(time.RFC3339), strconv.FormatInt(o.Count, 10), runs,
		}
	}
	err = terminal.WriteTable(cmd.OutOrStdout(),
		[]string{"NAMESPACE", "JOB", "FIRST DUE", "LAST DUE", "OCCURRENCES", "WOULD RUN"}, rows)
	if err == nil && r.More {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "There are more.")
	}
	return err
}

func acceptRestore(cmd *cobra.Command, run bool, noticed string) error {
	at, _ := time.Parse(time.RFC3339, noticed) // the flag is a time, or absent
	v, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	out, err := app.AcceptRestore(cmd.Context(), databaseOf(v), run, at)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("skipped %d pending runs; occurrences that had no run stay skipped", out.Skipped)
	if run {
		text = fmt.Sprintf("released %d runs; nodes apply the missed policies to those that were planned", out.Runs)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "accepted: %s\n", text)
	return err
}
