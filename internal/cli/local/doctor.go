package local

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/problem"
)

// UnhealthyError says that doctor found failures, or warnings with --strict, or that it could not look. Code is the exit
// code. The text is empty if the output has it already.
type UnhealthyError struct {
	Code int
	Text string
}

func (e UnhealthyError) Error() string { return e.Text }

func newDoctor() *cobra.Command {
	var pre, strict bool
	var open time.Duration
	var output *string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the database, the cluster and this machine", Args: noArgs,
		Long: `Check the database, the cluster and this machine, with the configuration of a
node, and say what is wrong and what to do. It changes nothing. Run it on a machine
that runs a node, as the same user.

Exit code: 0 if there is no failure, 1 for warnings with --strict, 2 for failures
and if doctor itself fails.`,
		Example: `  belfry doctor --config belfry.yaml
  belfry doctor --pre --database-url postgres://belfry@127.0.0.1/belfry
  belfry doctor --strict -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckOutput(*output); err != nil {
				return err
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return UnhealthyError{2, err.Error()}
			}
			warn(cmd, v)
			c := app.Config{Config: v.Config, Version: version(cmd)}
			results, err := app.Doctor(cmd.Context(), c, pre, open)
			if err == nil {
				err = writeResults(cmd, *output, results)
			}
			if err != nil {
				return UnhealthyError{2, err.Error()}
			}
			return judge(results, strict, *output)
		},
	}
	databaseFlags(cmd.Flags(), "listen", "api.url")
	cmd.Flags().BoolVar(&pre, "pre", false, "check only what matters before the installation")
	cmd.Flags().BoolVar(&strict, "strict", false, "end with code 1 if there are warnings")
	cmd.Flags().DurationVar(&open, "max-transaction", 10*time.Minute,
		"how long a transaction may be open before that is a warning")
	output = usage.OutputFlag(cmd.Flags())
	return cmd
}

// judge returns an UnhealthyError if there are failures, or warnings and strict is set.
func judge(results []doctor.Result, strict bool, output string) error {
	counts, e := countResults(results), UnhealthyError{}
	switch {
	case counts[doctor.Failure] > 0:
		e.Code = 2
	case counts[doctor.Warning] > 0 && strict:
		e.Code = 1
	default:
		return nil
	}
	if output != usage.Table {
		e.Text = fmt.Sprintf("doctor found %s and %s", problem.Count(counts[doctor.Failure], "failure"),
			problem.Count(counts[doctor.Warning], "warning"))
	}
	return e
}

func countResults(results []doctor.Result) map[doctor.Status]int {
	counts := map[doctor.Status]int{}
	for _, r := range results {
		counts[r.Status]++
	}
	return counts
}

func summary(counts map[doctor.Status]int) string {
	return fmt.Sprintf("%d ok, %s, %s, %d not checked", counts[doctor.OK],
		problem.Count(counts[doctor.Warning], "warning"), problem.Count(counts[doctor.Failure], "failure"),
		counts[doctor.NotChecked])
}

func writeResults(cmd *cobra.Command, output string, results []doctor.Result) error {
	if output != usage.Table {
		return terminal.WriteValue(cmd.OutOrStdout(), output, results)
	}
	marks := map[doctor.Status]string{
		doctor.OK: terminal.Green.Render("✓"), doctor.Warning: terminal.Yellow.Render("!"),
		doctor.Failure: terminal.Red.Render("✗"), doctor.NotChecked: terminal.Faint.Render("-"),
	}
	p := terminal.NewPrinter(cmd.OutOrStdout())
	group := ""
	for _, r := range results {
		if r.Group != group {
			if group != "" {
				p.Line("")
			}
			group = r.Group
			p.Line("%s", terminal.Strong.Render(group))
		}
		p.Line("  %s %-22s %s", marks[r.Status], r.Check, terminal.Clean(r.Message))
		if r.Hint != "" {
			p.Line("    %-22s %s", "", terminal.Faint.Render(r.Hint))
		}
	}
	p.Line("\n%s", summary(countResults(results)))
	return p.Err()
}
