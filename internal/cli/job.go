package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

func newJob() *cobra.Command {
	return remote.Flags(usage.Group(&cobra.Command{
		Use: "job", Short: "Create, look at and change jobs",
		Long: `Create, look at and change jobs. A JOB is the id of one, or its name.`,
		Example: `  belfry job create report --cron '0 2 * * *' --tz Europe/Berlin --url https://example.com/report
  belfry job list --label team=finance
  belfry job runs report`,
	}, newJobCreate(), newJobGet(), newJobList(), newJobEdit(), newJobPause(), newJobResume(), newJobTrigger(),
		newJobBackfill(), newJobDelete(), newJobRuns(), newJobVersions(), newJobRollback()))
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
			return showJob(r, raw)
		}),
	}
}

func newJobPause() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "pause JOB", Short: "Start no more runs of a job", Args: usage.Args(1, 1),
		Long: `Start no more runs of a job. What is under way ends. What becomes of the
occurrences until it is resumed, missed.paused of the job says.`,
		Example: `  belfry job pause report --note 'the target is being moved'`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Post(ctx, remote.JobPath(args[0])+":pause", map[string]string{"note": note})
			if err != nil {
				return err
			}
			return r.ShowDone(raw, terminal.Yellow.Render("paused"), args[0])
		}),
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for those who wonder later")
	return cmd
}

func newJobResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume JOB", Short: "Let a paused job run again", Args: usage.Args(1, 1),
		Example: `  belfry job resume report`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Post(ctx, remote.JobPath(args[0])+":resume", nil)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				resumed, err := terminal.Decode[struct {
					Missed int64 `json:"missed_occurrences"`
				}](raw)
				if err != nil {
					return err
				}
				r.Line("%s %s, %d occurrences missed while it was paused",
					terminal.Green.Render("resumed"), terminal.Clean(args[0]), resumed.Missed)
				return nil
			})
		}),
	}
}

func newJobTrigger() *cobra.Command {
	var payload string
	cmd := &cobra.Command{
		Use: "trigger JOB", Short: "Run a job now, beside its schedule", Args: usage.Args(1, 1),
		Example: `  belfry job trigger report
  belfry job trigger report --payload '{"day":"2026-01-31"}'
  belfry job trigger report --payload @payload.json`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			body := map[string]any{}
			if payload != "" {
				p, err := readPayload(payload)
				if err != nil {
					return err
				}
				body["payload"] = p
			}
			raw, err := r.Post(ctx, remote.JobPath(args[0])+":trigger", body)
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				t, err := terminal.Decode[struct {
					ID string `json:"id"`
				}](raw)
				if err != nil {
					return err
				}
				r.Line("%s %s", terminal.Green.Render("triggered"), t.ID)
				r.Line("%s", terminal.Faint.Render("follow it with: belfry run get "+t.ID))
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&payload, "payload", "", "JSON in place of the job's payload, or @FILE")
	return cmd
}

func newJobDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete JOB...", Short: "Delete jobs; their history stays", Args: usage.Args(1, usage.Many),
		Example: `  belfry job delete report
  belfry job delete report old-report`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
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
}
