package timeline

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// New returns belfry job timeline.
func New() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use: "timeline JOB", Short: "Show what a job did, does and will do", Args: usage.Args(1, 1),
		Long: `Show each occurrence of a job in a window of due times: what ran, what was skipped
and why, what is live and what is planned. Unlike belfry job runs, it has what
was skipped for a whole schedule, as in an outage, and what a clock change or a
calendar removes. More than 500 occurrences are counted in buckets instead.

By its id, a deleted job has its timeline too.`,
		Example: `  belfry job timeline report
  belfry job timeline report --from 2026-03-27T00:00:00Z --to 2026-04-03T00:00:00Z
  belfry job timeline report -o json`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Get(ctx, remote.JobPath(args[0])+"/timeline", remote.DropEmpty(url.Values{
				"from": {from}, "to": {to},
			}))
			if err != nil {
				return err
			}
			return r.Show(raw, func() error { return show(r, raw) })
		}),
	}
	usage.TimeFlag(cmd.Flags(), &from, "from", "due at this time or later (default 14 days ago)")
	usage.TimeFlag(cmd.Flags(), &to, "to", "due before this time (default in 7 days)")
	return cmd
}

// view is a timeline, as far as it is printed.
type view struct {
	Zone        string     `json:"zone"`
	Items       []item     `json:"items"`
	Buckets     []bucket   `json:"buckets"`
	Partial     bool       `json:"partial"`
	CoveredFrom *time.Time `json:"covered_from"`
	CoveredTo   *time.Time `json:"covered_to"`
}

type item struct {
	DueAt     *time.Time `json:"due_at"`
	State     string     `json:"state"`
	Reason    string     `json:"reason"`
	Origin    string     `json:"origin"`
	Mark      string     `json:"mark"`
	Attempt   int        `json:"attempt"`
	Lateness  *int64     `json:"lateness_ms"`
	Duration  *int64     `json:"duration_ms"`
	Count     int64      `json:"count"`
	LastDueAt *time.Time `json:"last_due_at"`
}

type bucket struct {
	From      *time.Time `json:"from"`
	Succeeded int64      `json:"succeeded"`
	Failed    int64      `json:"failed"`
	Cancelled int64      `json:"cancelled"`
	Skipped   int64      `json:"skipped"`
	Missed    int64      `json:"missed"`
	Live      int64      `json:"live"`
	Planned   int64      `json:"planned"`
	Paused    int64      `json:"paused"`
	Archived  int64      `json:"archived"`
	Unknown   int64      `json:"unknown"`
}

func show(r *remote.Server, raw []byte) error {
	v, err := terminal.Decode[view](raw)
	if err != nil {
		return err
	}
	zone, err := time.LoadLocation(v.Zone)
	if err != nil {
		zone = time.UTC
	}
	if v.Partial {
		r.Note("too much to read: complete from %s to %s; ask for less with --from and --to",
			terminal.Time(v.CoveredFrom, nil), terminal.Time(v.CoveredTo, nil))
	}
	switch {
	case len(v.Buckets) > 0:
		return showBuckets(r, &v, zone)
	case len(v.Items) == 0:
		r.Note("no occurrence in this time; belfry why JOB explains when the next one is due")
		return nil
	}
	headers := []string{"DUE UTC", "STATE", "WHY", "ORIGIN", "ATTEMPT", "LATE", "TOOK"}
	if zone != time.UTC {
		headers = append([]string{"DUE " + zone.String()}, headers...)
	}
	rows := make([][]string, len(v.Items))
	for i, o := range v.Items {
		rows[i] = o.row()
		if zone != time.UTC {
			rows[i] = append([]string{terminal.Time(o.DueAt, zone)}, rows[i]...)
		}
	}
	return terminal.WriteTable(r.Out, headers, rows)
}

func (i *item) row() []string {
	why := i.Reason
	if i.Mark != "" {
		why = i.Mark + map[bool]string{true: ", "}[why != ""] + why
	}
	due := terminal.Time(i.DueAt, nil)
	if i.LastDueAt != nil {
		due += " to " + terminal.Time(i.LastDueAt, nil)
		why += " (" + strconv.FormatInt(i.Count, 10) + ")"
	}
	return []string{
		due, terminal.State(i.State), terminal.Dash(why), terminal.Dash(i.Origin), number(int64(i.Attempt)),
		milliseconds(i.Lateness), milliseconds(i.Duration),
	}
}

// showBuckets prints the counts of the buckets that are not empty.
func showBuckets(r *remote.Server, v *view, zone *time.Location) error {
	headers := []string{
		"FROM " + zone.String(), "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "MISSED", "LIVE", "PLANNED", "PAUSED",
		"ARCHIVED", "UNKNOWN",
	}
	var rows [][]string
	for _, b := range v.Buckets {
		counts := []int64{
			b.Succeeded, b.Failed, b.Cancelled, b.Skipped, b.Missed, b.Live, b.Planned, b.Paused, b.Archived,
			b.Unknown,
		}
		row, sum := []string{terminal.Time(b.From, zone)}, int64(0)
		for _, n := range counts {
			row, sum = append(row, number(n)), sum+n
		}
		if sum > 0 {
			rows = append(rows, row)
		}
	}
	return terminal.WriteTable(r.Out, headers, rows)
}

// number formats a count. 0 is a dash, so that the others stand out.
func number(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func milliseconds(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return (time.Duration(*ms) * time.Millisecond).String()
}
