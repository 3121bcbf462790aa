package main

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newJobList() *cobra.Command {
	var labels []string
	var name, target, queue, dueAfter, dueBefore string
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs", Args: wants(0, 0),
		Long: `List jobs in the order of their creation; with --due-after or --due-before in the
order of their next due time. All filters must hold.`,
		Example: `  belfry job list
  belfry job list --label team=finance --state paused
  belfry job list --name report -o json --limit 0
  belfry job list --due-before 2027-01-31T09:00:00Z`,
	}
	f := cmd.Flags()
	limit := limitFlag(f)
	f.StringArrayVar(&labels, "label", nil, "key=value; may be repeated")
	state := choiceFlag(f, "state", "%s", "active", "paused", "finished")
	f.StringVar(&name, "name", "", "a part of the name")
	f.StringVar(&target, "target", "", "kind of target, such as http")
	f.StringVar(&queue, "queue", "", "name of a queue")
	timeFlag(f, &dueAfter, "due-after", "next due at this time or later")
	timeFlag(f, &dueBefore, "due-before", "next due before this time")
	cmd.RunE = with(func(ctx context.Context, r *remote, _ []string) error {
		return list(ctx, r, listing{
			path: "/jobs", limit: *limit, none: "no jobs; belfry job create makes one, belfry apply many", headers: []string{"NAME", "STATE", "SCHEDULE", "ZONE", "NEXT DUE IN ZONE", "NEXT DUE UTC", "TARGET", "QUEUE"},
			query: url.Values{
				"label": labels, "state": {state.String()}, "name": {name}, "target": {target}, "queue": {queue}, "due_after": {dueAfter}, "due_before": {dueBefore},
			},
		}, func(j jobView) []string {
			zone := j.zone()
			return []string{j.Name, stateStyle(j.State), j.when(), zone.String(), short(j.NextDueAt, zone), short(j.NextDueAt, nil), j.Target.String(), j.Queue}
		})
	})
	return cmd
}

// runView is what people see of a run.
type runView struct {
	ID        string     `json:"id"`
	Job       string     `json:"job"`
	JobName   string     `json:"job_name"`
	Queue     string     `json:"queue"`
	State     string     `json:"state"`
	Origin    string     `json:"origin"`
	DueAt     *time.Time `json:"due_at"`
	RunAt     *time.Time `json:"run_at"`
	StartedAt *time.Time `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`
	DueTo     *time.Time `json:"due_to"`
	Count     int64      `json:"count"`
	Attempt   int        `json:"attempt"`
	Version   int        `json:"version"`
	Reason    string     `json:"reason"`
	Status    int        `json:"status"`
	Message   string     `json:"message"`
	Node      string     `json:"node"`
	Dead      bool       `json:"dead_letter"`
}

// outcome is why a run came to its state, in a few words.
func (v *runView) outcome() string {
	text := v.Message
	if v.Reason != "" {
		text = v.Reason
		if v.Message != "" {
			text += ": " + v.Message
		}
	}
	if v.Count > 1 {
		text += " (" + strconv.FormatInt(v.Count, 10) + " occurrences)"
	}
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most-1]) + "…"
	}
	return dash(text)
}

// attempts is the number of the last one.
func attempts(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// took is how long the last attempt was under way.
func (v *runView) took() string {
	if v.StartedAt == nil || v.EndedAt == nil {
		return "-"
	}
	return v.EndedAt.Sub(*v.StartedAt).Round(time.Millisecond).String()
}

func newJobRuns() *cobra.Command {
	var f runFilter
	cmd := &cobra.Command{
		Use: "runs JOB", Short: "List the runs of a job, the newest first", Args: wants(1, 1),
		Example: `  belfry job runs report
  belfry job runs report --state failed --state skipped
  belfry job runs report --due-from 2026-01-01T00:00:00Z -o json`,
	}
	f.limit = limitFlag(cmd.Flags())
	f.add(cmd)
	cmd.RunE = with(func(ctx context.Context, r *remote, args []string) error {
		zone := time.UTC
		if r.format == "table" { // for the zone alone
			if raw, err := r.get(ctx, jobPath(args[0]), nil); err == nil {
				j, err := view[jobView](raw)
				if err != nil {
					return err
				}
				zone = j.zone()
			}
		}
		headers := []string{"DUE UTC", "STATE", "ATTEMPT", "TOOK", "WHY", "RUN"}
		if zone != time.UTC {
			headers = append([]string{"DUE " + zone.String()}, headers...)
		}
		row := func(v runView) []string {
			cells := []string{short(v.DueAt, nil), stateStyle(v.State), attempts(v.Attempt), v.took(), v.outcome(), v.ID}
			if zone != time.UTC {
				cells = append([]string{short(v.DueAt, zone)}, cells...)
			}
			return cells
		}
		return list(ctx, r, listing{path: jobPath(args[0]) + "/runs", limit: *f.limit, query: f.query(), headers: headers, none: "no runs; belfry why JOB tells when the next one is due"}, row)
	})
	return cmd
}
