package cli

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/files"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/cli/yamljson"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newJobCreate() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a job", Args: usage.Args(0, 1),
		Long: `Create a job from flags, or from a YAML file with -f. What is left out has its
default. To create many, or to change what is there, use belfry apply.`,
		Example: `  belfry job create report --cron '0 2 * * *' --tz Europe/Berlin --url https://example.com/report
  belfry job create ping --every 15m --url https://example.com/ping --method GET --label team=web
  belfry job create party --at 2027-01-31T09:00:00Z --url https://example.com/cake --payload '{"guests":7}'
  belfry job create -f report.yaml`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			job, err := newDefinition(r.Cmd, args, file)
			if err != nil {
				return err
			}
			var raw []byte
			err = r.Call(ctx, belfry.Request{Method: http.MethodPost, Path: "/jobs", Body: job}, &raw)
			if belfry.CodeOf(err) == "conflict" {
				name := shellQuote(fmt.Sprint(job["name"]))
				return remote.Explained(err, "a job named %s already exists; belfry job get %s shows it."+
					" Change it with belfry job edit %s, or with belfry apply", name, name, name)
			}
			if err != nil {
				return err
			}
			return r.Show(raw, func() error {
				j, err := terminal.Decode[jobView](raw)
				if err != nil {
					return err
				}
				r.Line("%s %s %s", terminal.Green.Render("created"), j.Name, terminal.Faint.Render(j.ID))
				if j.NextDueAt != nil {
					r.Line("next due %s", terminal.Moment(j.NextDueAt, j.zone()))
				}
				j.warn(r)
				return nil
			})
		}),
	}
	jobFlags(cmd.Flags())
	cmd.Flags().StringVarP(&file, "file", "f", "", "YAML or JSON file with one job, or - for the standard input")
	return cmd
}

// newDefinition builds a job from a file, if there is one, and flags.
func newDefinition(cmd *cobra.Command, args []string, file string) (object, error) {
	job := object{}
	if file != "" {
		jobs, err := files.Read(cmd.InOrStdin(), file)
		if err != nil {
			return nil, err
		}
		if len(jobs) != 1 {
			return nil, usage.Errorf("%s has %d jobs; belfry apply -f takes many", file, len(jobs))
		}
		if job, err = yamljson.DecodeObject(jobs[0].Raw); err != nil {
			return nil, err
		}
	}
	if len(args) == 1 {
		job["name"] = args[0]
	}
	if job["name"] == nil {
		return nil, usage.Errorf("a job needs a name: belfry job create NAME --cron … --url …")
	}
	if err := setFlags(cmd.Flags(), job); err != nil {
		return nil, err
	}
	if job["schedule"] == nil {
		return nil, usage.Errorf("when does it run? Use one of --cron, --every, --at and --rrule")
	}
	if job["target"] == nil {
		return nil, usage.Errorf("where do its runs go? Use --url, or --target and --target-config")
	}
	return job, nil
}
