package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newRun() *cobra.Command {
	return remoteFlags(group(&cobra.Command{
		Use: "run", Short: "Look at runs, cancel them, run them again",
		Example: `  belfry run list --state failed
  belfry run get run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000
  belfry run logs -f run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000`,
	}, newRunList(), newRunGet(), newRunLogs(), newRunCancel(), newRunRetry()))
}

// runFilter is that of the lists of runs.
type runFilter struct {
	states                                                *choice
	reason, queue, dueFrom, dueBefore, endedFrom, endedBy string
	limit                                                 *int // of lists
}

func (v *runFilter) add(cmd *cobra.Command) {
	f := cmd.Flags()
	v.states = choiceFlag(f, "state", "%s; may be repeated", "pending", "due", "running", "waiting", "succeeded", "failed", "cancelled", "skipped")
	v.states.many = true
	f.StringVar(&v.reason, "reason", "", "why it ended so, such as overlap")
	f.StringVar(&v.queue, "queue", "", "name of a queue")
	timeFlag(f, &v.dueFrom, "due-from", "due at this time or later")
	timeFlag(f, &v.dueBefore, "due-before", "due before this time")
	timeFlag(f, &v.endedFrom, "ended-from", "ended at this time or later")
	timeFlag(f, &v.endedBy, "ended-before", "ended before this time")
}

func (v *runFilter) query() url.Values {
	return url.Values{
		"state": {v.states.String()}, "reason": {v.reason}, "queue": {v.queue}, "due_from": {v.dueFrom}, "due_before": {v.dueBefore},
		"ended_from": {v.endedFrom}, "ended_before": {v.endedBy},
	}
}

func newRunList() *cobra.Command {
	var f runFilter
	cmd := &cobra.Command{
		Use: "list", Short: "List the runs of all jobs, the newest first", Args: wants(0, 0),
		Long: `List runs that have ended, the newest first, or with --state pending, due, running
or waiting those that are live. Times are in UTC; belfry job runs has the job's.`,
		Example: `  belfry run list --state failed --state skipped
  belfry run list --state running
  belfry run list --ended-from 2026-01-31T00:00:00Z --limit 0 -o json`,
	}
	f.limit = limitFlag(cmd.Flags())
	f.add(cmd)
	cmd.RunE = with(func(ctx context.Context, r *remote, _ []string) error {
		return list(ctx, r, listing{
			path: "/runs", limit: *f.limit, query: f.query(), headers: []string{"DUE UTC", "JOB", "STATE", "ATTEMPT", "TOOK", "WHY", "RUN"},
		}, func(v runView) []string {
			return []string{short(v.DueAt, nil), first(v.JobName, v.Job), stateStyle(v.State), attempts(v.Attempt), v.took(), v.outcome(), v.ID}
		})
	})
	return cmd
}

// runDetail is all that is known about a run.
type runDetail struct {
	runView
	Attempts []struct {
		Attempt   int        `json:"attempt"`
		State     string     `json:"state"`
		StartedAt *time.Time `json:"started_at"`
		EndedAt   *time.Time `json:"ended_at"`
		Status    int        `json:"status"`
		Message   string     `json:"message"`
		Node      string     `json:"node"`
	} `json:"attempts"`
}

// showRun prints a page about one, with its times in the zone of its job.
func showRun(ctx context.Context, r *remote, raw []byte) error {
	return r.show(raw, func() error {
		v, err := view[runDetail](raw)
		if err != nil {
			return err
		}
		zone := time.UTC
		if text, err := r.get(ctx, jobPath(v.Job), nil); err == nil {
			j, err := view[jobView](text)
			if err != nil {
				return err
			}
			zone = j.zone()
		}
		dead := ""
		if v.Dead {
			dead = "waits for belfry dlq redrive or discard"
		}
		err = writeFields(r.out, []field{
			{"run", strong.Render(v.ID)},
			{"job", first(v.JobName, v.Job+" (deleted)")},
			{"state", stateStyle(v.State)},
			{"why", v.Reason},
			{"message", v.Message},
			{"dead letter", dead},
			{"origin", v.Origin},
			{"due", moment(v.DueAt, zone)},
			{"may start", moment(v.RunAt, zone)},
			{"ended", moment(v.EndedAt, zone)},
			{"queue", v.Queue},
			{"job version", strconv.Itoa(v.Version)},
		})
		if err != nil || len(v.Attempts) == 0 {
			return err
		}
		rows := make([][]string, len(v.Attempts))
		for i, a := range v.Attempts {
			status := ""
			if a.Status != 0 {
				status = strconv.Itoa(a.Status)
			}
			rows[i] = []string{strconv.Itoa(a.Attempt), stateStyle(a.State), short(a.StartedAt, zone), short(a.EndedAt, zone), dash(status), dash(a.Node), dash(a.Message)}
		}
		_, _ = fmt.Fprintln(r.out)
		return writeTable(r.out, []string{"ATTEMPT", "STATE", "STARTED", "ENDED", "STATUS", "NODE", "MESSAGE"}, rows)
	})
}

func newRunGet() *cobra.Command {
	return &cobra.Command{
		Use: "get RUN", Short: "Show a run and its attempts", Args: wants(1, 1),
		Example: `  belfry run get run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			raw, err := r.get(ctx, runPath(args[0]), nil)
			if err != nil {
				return err
			}
			return showRun(ctx, r, raw)
		}),
	}
}

func newRunCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel RUN", Short: "Cancel a live run", Args: wants(1, 1),
		Long: `Cancel a live run. One that has not started will not start. Of one that has, what
it reports is ignored; its target may still finish what it began.`,
		Example: `  belfry run cancel run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000`,
		RunE:    runVerb("cancel", yellow.Render("cancelled")),
	}
}

func runVerb(verb, done string) func(*cobra.Command, []string) error {
	return with(func(ctx context.Context, r *remote, args []string) error {
		raw, err := r.post(ctx, runPath(args[0])+":"+verb, nil)
		if err != nil {
			return err
		}
		return r.show(raw, func() error { r.say("%s %s", done, clean(args[0])); return nil })
	})
}
