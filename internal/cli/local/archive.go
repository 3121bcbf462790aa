package local

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/problem"
)

func newArchive() *cobra.Command {
	return usage.Group(&cobra.Command{
		Use: "archive", Short: "Read and verify archived history",
		Example: `  belfry archive status --config belfry.yaml
  belfry archive runs --job report --from 2026-03-01 --to 2026-03-08 --config belfry.yaml`,
		Long: `Read the archive of history: days that nodes exported as Parquet files. Use the
configuration of a node. See docs/guide/archive.md.`,
	}, newArchiveStatus(), newArchiveRun(), newArchiveVerify(), newArchiveRuns(), newArchiveOptional())
}

// archiveFlags are the flags of all these commands.
type archiveFlags struct {
	from, to string
	output   *string
}

func (f *archiveFlags) add(cmd *cobra.Command, output func() *string) {
	flags := cmd.Flags()
	databaseFlags(flags, "archive.url")
	usage.TimeFlag(flags, &f.from, "from", "first day (default 30 days before --to)")
	usage.TimeFlag(flags, &f.to, "to", "last day (default today)")
	f.output = output()
}

func (f *archiveFlags) days() (from, to archive.Day, err error) {
	if to, err = parseDay(f.to, clock.Now()); err != nil {
		return from, to, err
	}
	if from, err = parseDay(f.from, to.Start().AddDate(0, 0, -30)); err != nil {
		return from, to, err
	}
	if from.Start().After(to.Start()) {
		return from, to, usage.Errorf("--from %s is after --to %s", from, to)
	}
	return from, to, nil
}

// read checks the flags and reads the settings.
func (f *archiveFlags) read(cmd *cobra.Command) (v *config.Values, from, to archive.Day, err error) {
	if err := usage.CheckOutput(*f.output); err != nil {
		return nil, from, to, err
	}
	if from, to, err = f.days(); err != nil {
		return nil, from, to, err
	}
	v, err = loadConfig(cmd)
	return v, from, to, err
}

func newArchiveStatus() *cobra.Command {
	var f archiveFlags
	cmd := &cobra.Command{
		Use: "status", Short: "List days of history and where they are", Args: noArgs,
		Example: `  belfry archive status --config belfry.yaml
  belfry archive status --from 2026-01-01 -o json`,
		Long: `List days of history, the newest first. A day is open until an hour after its
end, waiting or exporting until it is archived, and dropped if the archive did not
get it before it was older than keep_history. It is incomplete if rows came after its
export, and it was dropped before they were exported too. If "audit failed" follows,
the day is archived and was not audited, because its audit failed 3 times.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, from, to, err := f.read(cmd)
			if err != nil {
				return err
			}
			days, err := app.ArchiveStatus(cmd.Context(), v.DatabaseURL, from, to)
			if err != nil {
				return err
			}
			if *f.output != usage.Table {
				return terminal.WriteValue(cmd.OutOrStdout(), *f.output, days)
			}
			rows := [][]string{}
			for _, d := range days {
				in := "archive"
				switch {
				case d.InDatabase && d.State == "archived":
					in = "both"
				case d.InDatabase:
					in = "database"
				case d.State != "archived" && d.State != "incomplete":
					in = "none"
				}
				state := d.State
				if d.ArchivedAt != nil && d.AuditFailures > 0 {
					state += ", audit failed"
				}
				rows = append(rows, []string{
					d.Day.String(), state, in, number(d.Runs.Rows), number(d.Skips.Rows), number(d.Files), number(d.Bytes),
				})
			}
			return terminal.WriteTable(cmd.OutOrStdout(),
				[]string{"DAY", "STATE", "IN", "RUNS", "SKIPS", "FILES", "BYTES"}, rows)
		},
	}
	f.add(cmd, func() *string { return usage.OutputFlag(cmd.Flags()) })
	return cmd
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func newArchiveVerify() *cobra.Command {
	var f archiveFlags
	cmd := &cobra.Command{
		Use: "verify", Short: "Read archived days back and compare them", Args: noArgs,
		Example: `  belfry archive verify --config belfry.yaml
  belfry archive verify --from 2026-03-01 --to 2026-03-01 -o json`,
		Long: `Read all objects of archived days back. Their bytes, rows, order and hashes must be
those of the manifest, and the manifest must be what the database noted when the day
was archived. It ends with code 1 if something is missing, damaged or left over.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, from, to, err := f.read(cmd)
			if err != nil {
				return err
			}
			days, found := []archive.VerifiedDay{}, 0
			err = app.VerifyArchive(cmd.Context(), &v.Config, from, to, func(d archive.VerifiedDay) error {
				days, found = append(days, d), found+len(d.Findings)
				return nil
			})
			if err != nil {
				return err
			}
			if err := printVerified(cmd, *f.output, days); err != nil {
				return err
			}
			if found > 0 {
				return fmt.Errorf("the archive has %s; see docs/guide/archive.md#verify", problem.Count(found, "problem"))
			}
			return nil
		},
	}
	f.add(cmd, func() *string { return usage.OutputFlag(cmd.Flags()) })
	return cmd
}

func printVerified(cmd *cobra.Command, output string, days []archive.VerifiedDay) error {
	if output != usage.Table {
		return terminal.WriteValue(cmd.OutOrStdout(), output, days)
	}
	rows := [][]string{}
	for _, d := range days {
		result := "whole"
		if len(d.Findings) > 0 {
			result = problem.Count(len(d.Findings), "problem")
		}
		rows = append(rows, []string{
			d.Day.String(), result, number(d.Runs), number(d.Skips), number(int64(d.Files)), number(d.Bytes),
		})
	}
	err := terminal.WriteTable(cmd.OutOrStdout(), []string{"DAY", "RESULT", "RUNS", "SKIPS", "FILES", "BYTES"}, rows)
	p := terminal.NewPrinter(cmd.OutOrStdout())
	for _, d := range days {
		for _, f := range d.Findings[:min(len(d.Findings), maxPrinted)] {
			p.Line("%s: %s", terminal.Clean(f.Object), terminal.Clean(f.Problem))
		}
	}
	if err != nil {
		return err
	}
	return p.Err()
}

// maxArchived is how many rows of the archive a command reads.
const maxArchived = 1_000_000

func newArchiveRuns() *cobra.Command {
	var f archiveFlags
	var p app.ArchivedRunsParams
	cmd := &cobra.Command{
		Use: "runs", Short: "List archived runs of a job", Args: noArgs,
		Example: `  belfry archive runs --job report --from 2026-03-01 --to 2026-03-08
  belfry archive runs --job job_01HZX3V9T8QK5W7N2M4B6C8D0E --namespace team-a -o json
  belfry archive runs --job report --from 2026-03-01 -o parquet >report.parquet`,
		Long: `List the runs of a job that ended on some days, from the archive. With -o json, each
is what the API answered, without its payload, its output and the name of the node of
its last attempt.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.From, p.To, err = f.days(); err != nil {
				return err
			}
			if p.Job == "" {
				return usage.Errorf("set --job to the id or the name of a job")
			}
			if p.Limit < 1 || p.Limit > maxArchived {
				return usage.Errorf("--limit must be from 1 to %d", maxArchived)
			}
			if *f.output != "parquet" {
				if err := usage.CheckOutput(*f.output); err != nil {
					return usage.Errorf("-o %s: use table, json, yaml or parquet", *f.output)
				}
			}
			v, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			found, err := app.FindArchivedRuns(cmd.Context(), &v.Config, p)
			if err != nil {
				return err
			}
			if found.More {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "there are more than %d runs; pass --limit or fewer days\n", p.Limit)
			}
			return printArchived(cmd, *f.output, &found)
		},
	}
	f.add(cmd, func() *string {
		return cmd.Flags().StringP("output", "o", usage.Table, "table, json, yaml or parquet")
	})
	cmd.Flags().StringVar(&p.Job, "job", "", "id of the job, or its name if it is not deleted")
	cmd.Flags().StringVar(&p.Namespace, "namespace", "", "namespace of the job (default: that of its id, or default)")
	cmd.Flags().IntVar(&p.Limit, "limit", 1000, "maximum number of rows")
	return cmd
}

func printArchived(cmd *cobra.Command, output string, found *app.ArchivedRuns) error {
	switch output {
	case "parquet":
		return archive.WriteRuns(cmd.OutOrStdout(), found.Rows)
	case usage.Table:
	default:
		return terminal.WriteValue(cmd.OutOrStdout(), output, found.Shown)
	}
	rows := [][]string{}
	for i := range found.Shown {
		r := &found.Shown[i]
		rows = append(rows, []string{
			r.ID, string(r.State), stamp(&r.DueAt), stamp(r.EndedAt), strconv.Itoa(int(r.Attempt)),
			terminal.Clean(r.Reason),
		})
	}
	return terminal.WriteTable(cmd.OutOrStdout(),
		[]string{"RUN", "STATE", "DUE UTC", "ENDED UTC", "ATTEMPT", "REASON"}, rows)
}

func stamp(at *time.Time) string { return terminal.Time(at, nil) }

// parseDay returns the day of a time that a flag has, or the fallback.
func parseDay(text string, fallback time.Time) (archive.Day, error) {
	if text == "" {
		return archive.DayOf(fallback), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return archive.DayOf(at), err
}
