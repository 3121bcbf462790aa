package local

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/doctor"
)

// UnhealthyError says that doctor found failures, or warnings with --strict. Code is the exit code.
type UnhealthyError struct {
	Code               int
	Failures, Warnings int
}

func (e UnhealthyError) Error() string {
	return fmt.Sprintf("doctor found %d failures and %d warnings", e.Failures, e.Warnings)
}

func newDoctor() *cobra.Command {
	var pre, strict bool
	var open time.Duration
	var output *string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the database, the cluster and this machine", Args: noArgs,
		Long: `Check the database, the cluster and this machine, with the configuration of a
node, and say what is wrong and what to do. It changes nothing. Run it on a machine
that runs a node, as the same user.

Exit code: 0 if there is no failure, 1 for warnings with --strict, 2 for failures.`,
		Example: `  belfry doctor --config belfry.yaml
  belfry doctor --pre --database-url postgres://belfry@db.example.com/belfry
  belfry doctor --strict -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckOutput(*output); err != nil {
				return err
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			warn(cmd, v)
			c := app.Config{Config: v.Config, Version: version(cmd)}
			results, err := app.Doctor(cmd.Context(), c, pre, open)
			if err != nil {
				return err
			}
			if err := writeResults(cmd, *output, results); err != nil {
				return err
			}
			return judge(results, strict)
		},
	}
	config.Flags(cmd.Flags(), "database_url", "database_url_file", "listen", "api.url")
	cmd.Flags().BoolVar(&pre, "pre", false, "check only what matters before the installation")
	cmd.Flags().BoolVar(&strict, "strict", false, "end with code 1 if there are warnings")
	cmd.Flags().DurationVar(&open, "max-transaction", 10*time.Minute,
		"how long a transaction may be open before that is a warning")
	output = usage.OutputFlag(cmd.Flags())
	return cmd
}

func judge(results []doctor.Result, strict bool) error {
	var e UnhealthyError
	for _, r := range results {
		switch r.Status {
		case doctor.Failure:
			e.Failures++
		case doctor.Warning:
			e.Warnings++
		}
	}
	switch {
	case e.Failures > 0:
		e.Code = 2
		return e
	case e.Warnings > 0 && strict:
		e.Code = 1
		return e
	}
	return nil
}

func writeResults(cmd *cobra.Command, output string, results []doctor.Result) error {
	if output != usage.Table {
		raw, err := json.Marshal(results)
		if err != nil {
			return err
		}
		return terminal.WriteData(cmd.OutOrStdout(), output, raw)
	}
	marks := map[doctor.Status]string{
		doctor.OK: terminal.Green.Render("✓"), doctor.Warning: terminal.Yellow.Render("!"),
		doctor.Failure: terminal.Red.Render("✗"), doctor.NotChecked: terminal.Faint.Render("-"),
	}
	p := terminal.NewPrinter(cmd.OutOrStdout())
	group, counts := "", map[doctor.Status]int{}
	for _, r := range results {
		if r.Group != group {
			if group != "" {
				p.Line("")
			}
			group = r.Group
			p.Line("%s", terminal.Strong.Render(group))
		}
		counts[r.Status]++
		p.Line("  %s %-22s %s", marks[r.Status], r.Check, terminal.Clean(r.Message))
		if r.Hint != "" {
			p.Line("    %-22s %s", "", terminal.Faint.Render(r.Hint))
		}
	}
	p.Line("\n%d ok, %d warnings, %d failures, %d not checked", counts[doctor.OK], counts[doctor.Warning],
		counts[doctor.Failure], counts[doctor.NotChecked])
	return p.Err()
}
