package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/bulk"
	"github.com/belfry-dev/belfry/internal/cli/overview"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newDLQ() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "dlq", Short: "List and group dead letters, run them again, discard them",
		Long: `Dead letters are runs that failed and will not be retried. They wait until you
redrive or discard them. Their history stays.`,
		Example: `  belfry dlq summary
  belfry dlq list --job report
  belfry dlq redrive --job report --rate 10`,
	}, newDLQList(), overview.DeadLetters(func(cmd *cobra.Command) func() url.Values {
		var f letterFilter
		f.add(cmd)
		return f.query
	}),
		newDLQVerb("redrive", "Run dead letters again",
			`Run dead letters again, under their old ids: their targets get the same idempotency
keys as before. Name runs, or a filter; --all names all.
With a filter, the server works in the background, at --rate per second: Ctrl-C
ends the waiting, and belfry operation abort ends the work.`),
		newDLQVerb("discard", "Discard dead letters",
			`Discard dead letters: they do not run again. Name runs, or a filter; --all names
all.`)))
}

// letterFilter selects dead letters.
type letterFilter struct {
	Job, Queue, Reason, Cause, FailedFrom, FailedTo string
}

func (v *letterFilter) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&v.Job, "job", "", "id or name of a job")
	f.StringVar(&v.Queue, "queue", "", "name of a queue")
	f.StringVar(&v.Reason, "reason", "", "why they failed, such as attempts")
	f.StringVar(&v.Cause, "cause", "", "failures that look alike; belfry dlq summary shows it")
	usage.TimeFlag(f, &v.FailedFrom, "failed-from", "failed at this time or later")
	usage.TimeFlag(f, &v.FailedTo, "failed-to", "failed before this time")
}

func (v *letterFilter) query() url.Values {
	return url.Values{
		"job": {v.Job}, "queue": {v.Queue}, "reason": {v.Reason}, "cause": {v.Cause},
		"failed_from": {v.FailedFrom}, "failed_to": {v.FailedTo},
	}
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
		Use: "list", Short: "List dead letters, the newest first", Args: usage.Args(0, 0),
		Example: `  belfry dlq list
  belfry dlq list --job report -o json`,
	}
	limit := remote.LimitFlag(cmd.Flags())
	f.add(cmd)
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		return remote.List(ctx, r, remote.Listing{
			Path: "/dead-letters", Limit: *limit, None: "no dead letters", Query: f.query(), Name: "run",
			Headers: []string{"RUN", "FAILED UTC", "WHY"}, Wide: []string{"ID"},
		}, func(v letterView) []string {
			run := runView{ID: v.Run, Job: v.Job, JobName: v.JobName, DueAt: v.DueAt, Reason: v.Reason, Message: v.Message}
			return []string{run.reference(), terminal.Time(v.FailedAt, nil), run.outcome(), v.Run}
		})
	})
	return cmd
}

func newDLQVerb(verb, about, long string) *cobra.Command {
	var f letterFilter
	var all, detach, dry bool
	var rate int
	cmd := &cobra.Command{
		Use: verb + " [RUN...]", Short: about, Long: long, Args: cobra.ArbitraryArgs,
		Example: fmt.Sprintf(`  belfry dlq %[1]s run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000
  belfry dlq %[1]s --job report
  belfry dlq %[1]s --all --failed-to 2026-01-31T00:00:00Z`, verb),
	}
	f.add(cmd)
	if verb == "discard" {
		bulk.YesFlag(cmd)
	}
	cmd.Flags().BoolVar(&all, "all", false, "all of the namespace that the other filters leave")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only count the dead letters of a filter; change nothing")
	cmd.Flags().IntVar(&rate, "rate", 0, "maximum number per second (default 50)")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait until it is done")
	cmd.RunE = remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		filtered := all || f != (letterFilter{})
		switch {
		case r.Cmd.Flags().Changed("rate") && rate < 1:
			return usage.Errorf("--rate %d is less than 1; use 1 or more per second, or leave it out for 50", rate)
		case len(args) > 0 && dry:
			return usage.Errorf("--dry-run counts what a filter selects; the runs that you name are %d", len(args))
		case len(args) > 0 && filtered:
			return usage.Errorf("name runs or a filter, not both")
		case len(args) == 0 && !filtered:
			return usage.Errorf("which ones? Name runs, or use" +
				" --job, --queue, --reason, --cause, --failed-from, --failed-to or --all")
		case len(args) > 0:
			return redriveOrDiscard(ctx, r, verb, args)
		}
		body := map[string]any{"all": all, "dry_run": dry}
		if rate > 0 {
			body["rate"] = rate
		}
		for field, values := range remote.DropEmpty(f.query()) {
			body[field] = values[0]
		}
		path := "/dead-letters:" + verb
		if !dry {
			if err := bulk.Ask(ctx, r, path, body); err != nil {
				return err
			}
		}
		raw, err := r.Post(ctx, path, body)
		switch {
		case err != nil:
			return err
		case dry:
			return overview.ShowDryRun(r, verb, raw)
		}
		return bulk.Show(ctx, r, raw, detach)
	})
	return cmd
}

// redriveOrDiscard handles dead letters one by one. verb says which of the two.
func redriveOrDiscard(ctx context.Context, r *remote.Server, verb string, runs []string) error {
	bar := terminal.NewProgress(r.Cmd.ErrOrStderr(), verb, int64(len(runs)))
	defer bar.End()
	for i, id := range runs {
		if _, err := r.Post(ctx, "/dead-letters/"+belfry.PathEscape(id)+":"+verb, nil); err != nil {
			bar.End()
			if belfry.CodeOf(err) == "not_found" {
				return remote.Explained(err, "%s is not a dead letter; belfry dlq list shows them (%d of %d are done)",
					id, i, len(runs))
			}
			return fmt.Errorf("%s (%d of %d are done): %w", id, i, len(runs), err)
		}
		bar.Set(int64(i+1), int64(len(runs)))
	}
	bar.End()
	raw, err := json.Marshal(map[string]any{"kind": verb, "done": len(runs)})
	if err != nil {
		return err
	}
	return r.Show(raw, func() error {
		r.Line("%s: %d of %d done", verb, len(runs), len(runs))
		return nil
	})
}
