package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newDLQ() *cobra.Command {
	return remoteFlags(group(&cobra.Command{
		Use: "dlq", Short: "List dead letters, run them again, discard them",
		Long: `Dead letters are runs that failed for good. They wait until somebody runs them
again or discards them; their history stays.`,
		Example: `  belfry dlq list --job report
  belfry dlq redrive --job report --rate 10`,
	}, newDLQList(),
		newDLQVerb("redrive", "Run dead letters again", `Run dead letters again, under their old ids: their targets get the same idempotency
keys as before. Name runs, or a filter; --all names all.
A filter's are worked on at the server, at --rate per second: Ctrl-C ends the
waiting, and belfry dlq abort the work.`),
		newDLQVerb("discard", "Discard dead letters", `Discard dead letters: they do not run again. Name runs, or a filter; --all names
all.`), newDLQAbort()))
}

// letterFilter says which dead letters.
type letterFilter struct {
	Job          string `json:"job,omitempty"`
	Queue        string `json:"queue,omitempty"`
	Reason       string `json:"reason,omitempty"`
	FailedFrom   string `json:"failed_from,omitempty"`
	FailedBefore string `json:"failed_before,omitempty"`
}

func (v *letterFilter) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&v.Job, "job", "", "id or name of a job")
	f.StringVar(&v.Queue, "queue", "", "name of a queue")
	f.StringVar(&v.Reason, "reason", "", "why they failed, such as attempts")
	timeFlag(f, &v.FailedFrom, "failed-from", "failed at this time or later")
	timeFlag(f, &v.FailedBefore, "failed-before", "failed before this time")
}

func (v *letterFilter) query() url.Values {
	return url.Values{"job": {v.Job}, "queue": {v.Queue}, "reason": {v.Reason}, "failed_from": {v.FailedFrom}, "failed_before": {v.FailedBefore}}
}

type letterView struct {
	Run      string     `json:"run"`
	Job      string     `json:"job"`
	JobName  string     `json:"job_name"`
	DueAt    *time.Time `json:"due_at"`
	FailedAt *time.Time `json:"failed_at"`
	Attempt  int        `json:"attempt"`
	Reason   string     `json:"reason"`
	Message  string     `json:"message"`
}

func newDLQList() *cobra.Command {
	var f letterFilter
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters, the newest first", Args: wants(0, 0),
		Example: `  belfry dlq list
  belfry dlq list --job report -o json`,
	}
	limit := limitFlag(cmd.Flags())
	f.add(cmd)
	cmd.RunE = with(func(ctx context.Context, r *remote, _ []string) error {
		return list(ctx, r, listing{
			path: "/dead-letters", limit: *limit, none: "no dead letters", query: f.query(), headers: []string{"FAILED UTC", "JOB", "DUE UTC", "WHY", "RUN"},
		}, func(v letterView) []string {
			why := runView{Reason: v.Reason, Message: v.Message}
			return []string{short(v.FailedAt, nil), first(v.JobName, v.Job), short(v.DueAt, nil), why.outcome(), v.Run}
		})
	})
	return cmd
}

func newDLQVerb(verb, about, long string) *cobra.Command {
	var f letterFilter
	var all, detach bool
	var rate int
	cmd := &cobra.Command{
		Use: verb + " [RUN...]", Short: about, Long: long, Args: cobra.ArbitraryArgs,
		Example: fmt.Sprintf(`  belfry dlq %[1]s run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000
  belfry dlq %[1]s --job report
  belfry dlq %[1]s --all --failed-before 2026-01-31T00:00:00Z`, verb),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all of the namespace that the other filters leave")
	cmd.Flags().IntVar(&rate, "rate", 0, "at most so many per second (default 50)")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait until it is done")
	cmd.RunE = with(func(ctx context.Context, r *remote, args []string) error {
		filtered := all || f != (letterFilter{})
		switch {
		case len(args) > 0 && filtered:
			return usagef("name runs or a filter, not both")
		case len(args) == 0 && !filtered:
			return usagef("which ones? Name runs, or use --job, --queue, --reason, --failed-from, --failed-before or --all")
		case len(args) > 0:
			return r.settleEach(ctx, verb, args)
		}
		body := struct {
			letterFilter
			All  bool `json:"all,omitempty"`
			Rate int  `json:"rate,omitempty"`
		}{f, all, rate}
		raw, err := r.post(ctx, "/dead-letters:"+verb, body)
		if err != nil {
			return err
		}
		return r.await(ctx, raw, detach)
	})
	return cmd
}

// settleEach redrives or discards dead letters one by one.
func (r *remote) settleEach(ctx context.Context, verb string, runs []string) error {
	bar := newProgress(r.cmd.ErrOrStderr(), verb, int64(len(runs)))
	defer bar.end()
	for i, id := range runs {
		if _, err := r.post(ctx, "/dead-letters/"+belfry.PathEscape(id)+":"+verb, nil); err != nil {
			bar.end()
			if belfry.CodeOf(err) == "not_found" {
				return told{fmt.Sprintf("%s is no dead letter; belfry dlq list shows them (%d of %d are done)", id, i, len(runs)), err}
			}
			return fmt.Errorf("%s (%d of %d are done): %w", id, i, len(runs), err)
		}
		bar.set(int64(i+1), int64(len(runs)))
	}
	bar.end()
	raw, err := json.Marshal(map[string]any{"kind": verb, "done": len(runs)})
	if err != nil {
		return err
	}
	return r.show(raw, func() error {
		r.say("%s: %d of %d done", verb, len(runs), len(runs))
		return nil
	})
}

// operationView is work that the server does in its own time.
type operationView struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	State  string `json:"state"`
	Count  int64  `json:"count"`
	Done   int64  `json:"done"`
	Failed int64  `json:"failed"`
}

// pollPause is the distance at which an operation is asked about.
const pollPause = 500 * time.Millisecond

// await watches an operation until it ends.
func (r *remote) await(ctx context.Context, raw []byte, detach bool) error {
	o, err := view[operationView](raw)
	if err != nil {
		return err
	}
	bar := newProgress(r.cmd.ErrOrStderr(), o.Kind, o.Count)
	defer bar.end()
	for o.State == "running" && !detach {
		bar.set(o.Done+o.Failed, o.Count)
		pause(ctx, pollPause)
		if ctx.Err() == nil {
			raw, err = r.get(ctx, "/operations/"+belfry.PathEscape(o.ID), nil)
		}
		if ctx.Err() != nil {
			bar.end()
			return fmt.Errorf("no longer waited for, after %d of %d; the %s goes on at the server. To end it: belfry dlq abort %s", o.Done+o.Failed, o.Count, o.Kind, o.ID)
		}
		if err != nil {
			return err
		}
		if o, err = view[operationView](raw); err != nil {
			return err
		}
	}
	bar.end()
	return r.show(raw, func() error {
		switch {
		case o.Count == 0:
			r.say("no dead letters: there is nothing to %s", o.Kind)
		case o.State == "running":
			r.say("%s of %d dead letters has begun at the server, %s", o.Kind, o.Count, faint.Render("to end it: belfry dlq abort "+o.ID))
		default:
			r.say("%s: %s, %d of %d done, %d failed", o.Kind, stateStyle(o.State), o.Done, o.Count, o.Failed)
		}
		if o.Failed > 0 {
			r.say("%s", faint.Render("failed: their job is deleted, or the run is live; they are still dead letters"))
		}
		return nil
	})
}

func newDLQAbort() *cobra.Command {
	return &cobra.Command{
		Use: "abort OPERATION", Short: "End a redrive or discard that is under way", Args: wants(1, 1),
		Example: `  belfry dlq abort op_06f8m2tq5dtk1e7n9q0c3s5v7g`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			raw, err := r.post(ctx, "/operations/"+belfry.PathEscape(args[0])+":abort", nil)
			if err != nil {
				return err
			}
			return r.show(raw, func() error { r.say("%s %s", yellow.Render("aborted"), clean(args[0])); return nil })
		}),
	}
}
