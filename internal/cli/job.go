package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/bulk"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/timeline"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/problem"
)

func newJob() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "job", Short: "Create, look at and change jobs",
		Long: `Create, look at and change jobs. A JOB is the id of one, or its name.`,
		Example: `  belfry job create report --cron '0 2 * * *' --tz Europe/Berlin --url https://example.com/report
  belfry job list --label team=finance
  belfry job runs report`,
	}, newJobCreate(), newJobGet(), newJobList(), newJobEdit(), newJobPause(), newJobResume(), newJobTrigger(),
		newJobBackfill(), newJobDelete(), bulk.NewRelabel(), bulk.NewSpread(),
		newJobRuns(), timeline.New(), newJobPreview(), newJobVersions(), newJobRollback(), newJobRestore()))
}

func newJobGet() *cobra.Command {
	return &cobra.Command{
		Use: "get JOB", Short: "Show a job", Args: usage.Args(1, 1),
		Example: `  belfry job get report
  belfry job get report -o yaml`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Get(ctx, remote.JobPath(args[0]), nil)
			if err != nil {
				return err
			}
			stats := ""
			if r.ForPeople() {
				stats = timeline.Stats(ctx, r, args[0])
			}
			return showJob(r, raw, stats)
		}),
	}
}

func newJobPause() *cobra.Command {
	var note, until string
	var many bulk.JobFlags
	cmd := &cobra.Command{
		Use: "pause [JOB...]", Short: "Start no more runs of jobs",
		Long: `Start no more runs of jobs. Attempts in progress end as usual. missed.paused of a job
decides what happens to the occurrences of the pause when it is resumed. With
--until, Belfry resumes them at that time.

` + bulk.About,
		Example: `  belfry job pause report --note 'the target is being moved'
  belfry job pause report invoices --until 2027-01-31T06:00:00Z
  belfry job pause --label team=billing --dry-run`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			body := map[string]any{"note": note}
			if until != "" {
				body["until"] = until
			}
			if done, err := many.Many(ctx, r, args, "pause", body); done {
				return err
			}
			return eachJob(ctx, r, args, true, func(name string) (json.RawMessage, error) {
				raw, err := r.Post(ctx, remote.JobPath(name)+":pause", body)
				if err == nil {
					r.Line("%s %s", terminal.Yellow.Render("paused"), terminal.Clean(name))
				}
				return raw, err
			})
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why; belfry job get and belfry why show it")
	usage.TimeFlag(cmd.Flags(), &until, "until", "resume them at this time")
	many.Add(cmd)
	return cmd
}

func newJobResume() *cobra.Command {
	var many bulk.JobFlags
	cmd := &cobra.Command{
		Use: "resume [JOB...]", Short: "Let paused jobs run again",
		Long: "Let paused jobs run again.\n\n" + bulk.About,
		Example: `  belfry job resume report
  belfry job resume report invoices
  belfry job resume --label team=billing --state paused`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			if done, err := many.Many(ctx, r, args, "resume", map[string]any{}); done {
				return err
			}
			return eachJob(ctx, r, args, true, func(name string) (json.RawMessage, error) {
				before, err := r.Get(ctx, remote.JobPath(name), nil)
				if err != nil {
					return nil, err
				}
				was, err := terminal.Decode[jobView](before)
				if err != nil {
					return nil, err
				}
				raw, err := r.Post(ctx, remote.JobPath(name)+":resume", nil)
				if err != nil {
					return nil, err
				}
				now, err := terminal.Decode[resumedView](raw)
				if err != nil {
					return nil, err
				}
				if was.State != "paused" {
					r.Line("%s %s: it was not paused", terminal.Faint.Render("unchanged"), terminal.Clean(name))
					return raw, nil
				}
				r.Line("%s %s%s", terminal.Green.Render("resumed"), terminal.Clean(name), now.ofThePause())
				return raw, nil
			})
		}),
	}
	many.Add(cmd)
	return cmd
}

// resumedView is what is printed of a job that was resumed.
type resumedView struct {
	Occurrences int64 `json:"missed_occurrences"`
	Missed      struct {
		Paused string `json:"paused"`
	} `json:"missed"`
}

// ofThePause says what happens to the occurrences of the pause.
func (v resumedView) ofThePause() string {
	if v.Occurrences == 0 {
		return ""
	}
	count := problem.Count(v.Occurrences, "occurrence")
	switch v.Missed.Paused {
	case "all":
		return fmt.Sprintf("; %s of the pause will be caught up (missed.paused: all)", count)
	case "once":
		return fmt.Sprintf("; the newest of %s of the pause will run (missed.paused: once)", count)
	default:
		return fmt.Sprintf("; skipped %s of the pause (missed.paused: skip)", count)
	}
}

func newJobDelete() *cobra.Command {
	var many bulk.JobFlags
	cmd := &cobra.Command{
		Use: "delete [JOB...]", Short: "Delete jobs; their history stays",
		Long: "Delete jobs. Their history stays.\n\n" + bulk.About,
		Example: `  belfry job delete report
  belfry job delete report old-report
  belfry job delete --state finished --dry-run`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			if done, err := many.Many(ctx, r, args, "delete", map[string]any{}); done {
				return err
			}
			type result struct {
				Name   string `json:"name"`
				Result string `json:"result"`
			}
			results := []result{}
			for _, name := range args {
				if err := r.Delete(ctx, remote.JobPath(name)); err != nil {
					return r.Explain(err, []string{name})
				}
				r.Line("%s %s", terminal.Red.Render("deleted"), terminal.Clean(name))
				results = append(results, result{Name: name, Result: "deleted"})
			}
			raw, err := json.Marshal(results)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error { return nil })
		}),
	}
	many.Add(cmd)
	bulk.YesFlag(cmd)
	return cmd
}
