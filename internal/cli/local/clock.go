package local

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/clock"
)

func newClock() *cobra.Command {
	cmd := &cobra.Command{
		Use: "clock", Short: "Show and confirm the clock of the database",
		Long: `The clock of the database decides what is due. While it is in doubt, nodes do no
work: they plan, start, rescue and remove nothing. They continue by themselves
when the clock is right again. If it is right and nodes still doubt it, confirm it.
Both commands need a database URL: that of the nodes is enough.`,
		Example: `  belfry clock show
  belfry clock confirm`,
	}
	usage.Group(cmd, newClockShow(), newClockConfirm())
	for _, c := range cmd.Commands() {
		databaseFlags(c.Flags())
	}
	return cmd
}

// clockView is the clocks in the output for programs.
type clockView struct {
	Database time.Time  `json:"database"`
	Machine  time.Time  `json:"machine"`
	Trusted  *time.Time `json:"trusted"` // null: never
	InDoubt  bool       `json:"in_doubt"`
}

func viewClock(s clock.Sample) clockView {
	v := clockView{Database: s.Now, Machine: clock.Now().UTC(), InDoubt: s.InDoubt()}
	if !s.Mark.IsZero() {
		v.Trusted = &s.Mark
	}
	return v
}

func newClockShow() *cobra.Command {
	var output *string
	cmd := &cobra.Command{
		Use: "show", Short: "Show the clock of the database, of this machine, and the time that nodes trusted last",
		Args: noArgs,
		Example: `  belfry clock show
  belfry clock show -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckOutput(*output); err != nil {
				return err
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			s, err := app.Clock(cmd.Context(), v.DatabaseURL)
			if err != nil {
				return err
			}
			view := viewClock(s)
			if *output == usage.Table {
				return printClock(cmd, view)
			}
			return terminal.WriteValue(cmd.OutOrStdout(), *output, view)
		},
	}
	output = usage.OutputFlag(cmd.Flags())
	return cmd
}

func printClock(cmd *cobra.Command, v clockView) error {
	trusted := "-"
	if v.Trusted != nil {
		trusted = v.Trusted.Format(time.RFC3339)
	}
	err := terminal.WriteTable(cmd.OutOrStdout(), []string{"CLOCK", "TIME"}, [][]string{
		{"database", v.Database.Format(time.RFC3339)},
		{"this machine", v.Machine.Format(time.RFC3339)},
		{"last trusted", trusted},
	})
	if err != nil {
		return err
	}
	text := "nodes trust it"
	switch {
	case v.InDoubt:
		text = "The clock is in doubt: nodes do no work. Correct the wrong clock. " +
			"If the database clock is right, run: belfry clock confirm"
	case v.Trusted == nil:
		text = "no node has trusted it yet"
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

func newClockConfirm() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "confirm", Short: "Confirm that the clock of the database is right, so that nodes trust it", Args: noArgs,
		Long: `Confirm that the clock of the database is right. All nodes trust it within seconds
and treat the time in between as missed. A wrong clock that is confirmed starts
what is due later and removes history: this cannot be undone.`,
		Example: `  belfry clock confirm`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			s, err := app.Clock(cmd.Context(), v.DatabaseURL)
			if err != nil {
				return err
			}
			if !s.Mark.IsZero() && !s.InDoubt() {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "the clock is already trusted; nothing to confirm")
				return err
			}
			if off := s.Now.Sub(clock.Now()); off.Abs() > clock.MaxJump && !force {
				return fmt.Errorf("the database clock shows %s, and this machine's %s: one of them is wrong; "+
					"correct it, or use --force if the clock of the database is right",
					s.Now.Format(time.RFC3339), clock.Now().UTC().Format(time.RFC3339))
			}
			if s, err = app.ConfirmClock(cmd.Context(), databaseOf(v)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "confirmed: it is %s\n", s.Now.Format(time.RFC3339))
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "confirm even if this machine's clock shows another time")
	return cmd
}
