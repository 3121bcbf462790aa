package cli

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/local"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func newJobPreview() *cobra.Command {
	var from string
	var count int
	cmd := &cobra.Command{
		Use: "preview JOB", Short: "Print the next times of a job, and what DST does to them", Args: usage.Args(1, 1),
		Long: `Print the next times of a job in its zone and in UTC, as its schedule says, even if
the job is paused. belfry preview does the same for a schedule that no job has.`,
		Example: `  belfry job preview report
  belfry job preview report --from 2027-03-27T00:00:00Z -n 3`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Get(ctx, remote.JobPath(args[0])+"/preview", remote.DropEmpty(url.Values{
				"from": {from}, "count": {strconv.Itoa(count)},
			}))
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				zone, err := zoneOf(ctx, r, args[0])
				if err != nil {
					return err
				}
				return showPreview(r, raw, zone)
			})
		}),
	}
	cmd.Flags().IntVarP(&count, "count", "n", 5, "how many times, 1 to 100")
	usage.TimeFlag(cmd.Flags(), &from, "from", "list times from this one on (default now)")
	return cmd
}

func showPreview(r *remote.Server, raw []byte, zone *time.Location) error {
	v, err := terminal.Decode[struct {
		Words        string                     `json:"words"`
		Occurrences  []schedule.PreviewLine     `json:"occurrences"`
		ClockChanges []schedule.ClockChangeLine `json:"clock_changes"`
		More         bool                       `json:"more"`
	}](raw)
	if err != nil {
		return err
	}
	if v.Words != "" {
		r.Line("%s", terminal.Strong.Render(terminal.Clean(v.Words)))
		r.Line("")
	}
	lines := make([]schedule.Preview, len(v.Occurrences))
	for i, o := range v.Occurrences {
		lines[i].More = o.Skipped
		if o.DueAt != nil {
			lines[i].Occurrence = schedule.Occurrence{
				Due: o.DueAt.In(zone), Mark: o.Mark, Skip: o.Skip, Nominal: o.Nominal,
			}
		}
	}
	var notes []string
	if !v.More {
		notes = append(notes, "no further occurrence")
	}
	for _, c := range v.ClockChanges {
		notes = append(notes, "clock change: "+terminal.Local(c.At.In(zone))+", from "+c.Before+" to "+c.After)
	}
	return local.WriteOccurrences(r.Out, lines, notes)
}
