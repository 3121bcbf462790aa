package cli

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/timeline"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

func newJobList() *cobra.Command {
	var labels []string
	var name, target, queue, dueFrom, dueTo string
	var recent bool
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs", Args: usage.Args(0, 0),
		Long: `List jobs in the order of their creation. All filters must hold.

--due-from and --due-to list active jobs in the order of their next due time instead, without
other filters. The next minute is planned already: belfry run list --state pending shows it.

--recent adds the last 12 runs and skips of each job, the newest at the right:
  + succeeded, x failed, - skipped, / cancelled, > running or accepted, . due`,
		Example: `  belfry job list
  belfry job list --label team=finance --state paused
  belfry job list --name report -o json --limit 0
  belfry job list --due-to 2027-01-31T09:00:00Z
  belfry job list --recent`,
	}
	f := cmd.Flags()
	limit := remote.LimitFlag(f)
	f.StringArrayVar(&labels, "label", nil, "key=value; may be repeated")
	state := usage.NewChoice(f, "state", "%s", "active", "paused", "finished")
	f.StringVar(&name, "name", "", "a part of the name")
	f.StringVar(&target, "target", "", "kind of target, such as http")
	f.StringVar(&queue, "queue", "", "name of a queue")
	usage.TimeFlag(f, &dueFrom, "due-from", "next due at this time or later")
	usage.TimeFlag(f, &dueTo, "due-to", "next due before this time")
	f.BoolVar(&recent, "recent", false, "show the last runs and skips")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		if dueFrom+dueTo != "" && (len(labels) > 0 || state.String()+name+target+queue != "") {
			return usage.Errorf("--due-from and --due-to go without other filters; remove them, or the times")
		}
		listing := remote.Listing{
			Path: "/jobs", Limit: *limit, None: "no jobs; belfry job create makes one, belfry apply many",
			Headers: []string{
				"NAME", "STATE", "SCHEDULE", "ZONE", "NEXT DUE IN ZONE", "NEXT DUE UTC", "TARGET", "QUEUE",
			},
			Wide: []string{"IN WORDS"},
			Query: url.Values{
				"label": labels, "state": {state.String()}, "name": {name}, "target": {target}, "queue": {queue},
				"due_from": {dueFrom}, "due_to": {dueTo},
			},
		}
		if recent {
			listing.Query.Set("include", "recent")
			listing.Headers = slices.Insert(listing.Headers, 2, "LAST 12")
		}
		return remote.List(ctx, r, listing, func(j jobView) []string {
			zone := j.zone()
			row := []string{
				j.Name, terminal.State(j.State), j.when(), zone.String(),
				terminal.Time(j.NextDueAt, zone), terminal.Time(j.NextDueAt, nil), j.Target.String(), j.Queue, j.Words,
			}
			if recent {
				row = slices.Insert(row, 2, timeline.Marks(j.Recent, j.RecentPartial))
			}
			return row
		})
	})
	return cmd
}

// isPlanned reports whether nothing has happened to a run yet: its time has not come, and it is no retry.
func isPlanned(raw json.RawMessage) bool {
	var v runView
	err := json.Unmarshal(raw, &v)
	return err == nil && v.State == "pending" && v.Attempt == 0 && v.Message == ""
}

func newJobRuns() *cobra.Command {
	var f runFilter
	var upcoming bool
	cmd := &cobra.Command{
		Use: "runs JOB", Short: "List the runs of a job, the newest first", Args: usage.Args(1, 1),
		Long: `List the runs of a job that have ended or are due, running or retrying, the newest
first. --upcoming lists the planned ones instead, the next one first: runs are
planned about a minute before they are due.

RUN is the job and the due time in UTC; other commands accept it as it is.`,
		Example: `  belfry job runs report
  belfry job runs report --upcoming
  belfry job runs report --state failed --state skipped
  belfry job runs report --due-from 2026-01-01T00:00:00Z -o json`,
	}
	f.limit = remote.LimitFlag(cmd.Flags())
	f.add(cmd)
	cmd.Flags().BoolVar(&upcoming, "upcoming", false, "list the planned runs, the next one first")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		listing := remote.Listing{
			Path: remote.JobPath(args[0]) + "/runs", Limit: *f.limit, Query: f.query(), Name: "id",
			Headers: runHeaders, Wide: runWide,
			None: "no runs; belfry why JOB explains when the next one is due",
		}
		switch {
		case upcoming && f.states.String() != "":
			return usage.Errorf("use --upcoming or --state, not both")
		case upcoming:
			listing.Query["state"], listing.Reverse = []string{"pending"}, true
			listing.Drop = func(raw json.RawMessage) bool { return !isPlanned(raw) }
			listing.None = "no run is planned yet; belfry why JOB explains when the next one is due"
		case f.states.String() == "":
			listing.Drop = isPlanned
		}
		zone := time.UTC
		if r.ForPeople() {
			var err error
			if zone, err = zoneOf(ctx, r, args[0]); err != nil {
				return err
			}
		}
		if zone == time.UTC {
			return remote.List(ctx, r, listing, func(v runView) []string { return v.row() })
		}
		listing.Headers = append([]string{"DUE " + zone.String()}, runHeaders...)
		return remote.List(ctx, r, listing, func(v runView) []string {
			return append([]string{terminal.Time(v.DueAt, zone)}, v.row()...)
		})
	})
	return cmd
}
