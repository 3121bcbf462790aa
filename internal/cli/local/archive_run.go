package local

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app/archiving"
	"github.com/belfry-dev/belfry/internal/archiver"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/problem"
)

func newArchiveRun() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run", Short: "Export the days that are over, now", Args: noArgs,
		Example: `  belfry archive run --config belfry.yaml`,
		Long: `Export all days of history that are over and not archived, in the foreground. Nodes
do the same by themselves. They may do it at the same time: one of them, or this
command, exports a day. It ends with code 1 if a day or its audit fails, or if the
audit finds an occurrence that is not as it must be.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			p := exportPrinter{to: terminal.NewPrinter(cmd.OutOrStdout())}
			left, err := archiving.Run(cmd.Context(), &v.Config, p.report)
			if err != nil {
				return err
			}
			if p.found > 0 {
				return fmt.Errorf("the audit of these days found %s; see docs/guide/audit.md",
					problem.Count(int(p.found), "problem"))
			}
			if p.unaudited > 0 {
				return fmt.Errorf("%s archived without an audit, because it failed; see docs/guide/archive.md",
					problem.Count(p.unaudited, "day"))
			}
			p.to.Line("%s archived, %d left; belfry archive status lists them", problem.Count(p.days, "day"), left)
			return p.to.Err()
		},
	}
	databaseFlags(cmd.Flags(), "archive.url")
	return cmd
}

// exportPrinter prints the progress of an export: each step, and every few seconds the rows that were read.
type exportPrinter struct {
	to    *terminal.Printer
	days  int
	found int64
	// unaudited is how many days are archived and not audited.
	unaudited int
	last      archiver.Progress
	at        int64 // seconds
}

func (p *exportPrinter) report(now archiver.Progress) {
	const every = 5
	seconds := int64(clock.Elapsed().Seconds())
	if now.Day == p.last.Day && now.Step == p.last.Step && seconds < p.at+every {
		return
	}
	p.last, p.at = now, seconds
	text := fmt.Sprintf("%s: %s", now.Day, now.Step)
	if now.Runs > 0 {
		text += fmt.Sprintf(", %d runs", now.Runs)
	}
	if now.Found > 0 {
		text += fmt.Sprintf(", %s found by the audit", problem.Count(int(now.Found), "problem"))
	}
	if now.AuditError != nil {
		text += fmt.Sprintf(", audit failed: %v", now.AuditError)
	}
	if now.Step == "archived" {
		p.days++
		p.found += now.Found
		if now.AuditError != nil {
			p.unaudited++
		}
	}
	p.to.Line("%s", text)
}
