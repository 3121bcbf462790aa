package bulk

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// About is the part of the help that is the same for all commands with JobFlags.
const About = `With a filter (--label, --state, --name, --target, --queue) or --all, the server works
in the background on all jobs that match, at --rate per second. Ctrl-C ends the
waiting, and belfry operation abort ends the work. --dry-run shows how many match.`

// JobFlags select jobs for a command that also takes names.
type JobFlags struct {
	Flags
	labels              []string
	name, target, queue string
	state               *usage.Choice
}

// Add adds the flags to a command, and lets it run without names.
func (f *JobFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.labels, "label", nil, "all jobs with this label, key=value; may be repeated")
	f.state = usage.NewChoice(flags, "state", "all jobs that are %s", "active", "paused", "finished")
	flags.StringVar(&f.name, "name", "", "all jobs with this in their name")
	flags.StringVar(&f.target, "target", "", "all jobs with this kind of target, such as http")
	flags.StringVar(&f.queue, "queue", "", "all jobs of this queue")
	f.Flags.Add(cmd, "jobs")
	cmd.Args = usage.Args(0, usage.Many)
}

// filter returns the filter as the API takes it, or nil if there is none.
func (f *JobFlags) filter() map[string]any {
	out := map[string]any{}
	for field, value := range map[string]string{
		"name": f.name, "target": f.target, "queue": f.queue, "state": f.state.String(),
	} {
		if value != "" {
			out[field] = value
		}
	}
	if len(f.labels) > 0 {
		out["label"] = f.labels
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Many runs an operation if a filter is set, which is the verb with a body. It returns false if the command has names.
func (f *JobFlags) Many(
	ctx context.Context, r *remote.Server, args []string, verb string, body map[string]any,
) (bool, error) {
	filter := f.filter()
	if err := f.check(r.Cmd, args, f.all || filter != nil); err != nil {
		return true, err
	}
	if len(args) > 0 {
		return false, nil
	}
	if filter != nil {
		body["filter"] = filter
	}
	return true, f.send(ctx, r, "/jobs:"+verb, body)
}

// NewRelabel returns the command that changes the labels of many jobs.
func NewRelabel() *cobra.Command {
	var many JobFlags
	var set map[string]string
	var remove []string
	cmd := &cobra.Command{
		Use: "relabel", Short: "Set and remove labels of many jobs",
		Long: "Set and remove labels of many jobs. Each job that changes gets a new version.\n\n" + About,
		Example: `  belfry job relabel --label team=fin --set team=finance --dry-run
  belfry job relabel --name invoice --set team=billing --remove owner`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			body := map[string]any{"set": set, "remove": remove}
			_, err := many.Many(ctx, r, nil, "relabel", body)
			return err
		}),
	}
	cmd.Flags().StringToStringVar(&set, "set", nil, "label to set, key=value; may be repeated")
	cmd.Flags().StringArrayVar(&remove, "remove", nil, "key of a label to remove; may be repeated")
	many.Add(cmd)
	cmd.Args = usage.Args(0, 0)
	return cmd
}

// NewSpread returns the command that spreads many jobs over time.
func NewSpread() *cobra.Command {
	var many JobFlags
	var jitter string
	cmd := &cobra.Command{
		Use: "spread", Short: "Spread many jobs over time",
		Long: `Spread many jobs over time, so that they do not all start at minute 0. H replaces
minute 0 in cron expressions: each job runs at its own minute of the same hour. With
--jitter, jobs that have less get that jitter instead, unless they run as often as
that. Each job that changes gets a new version, and belfry operation undo restores
the one before. belfry load shows when it is busy.

` + About,
		Example: `  belfry job spread --label team=billing --dry-run
  belfry job spread --all --jitter 5m`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
			body := map[string]any{}
			if jitter != "" {
				body["jitter"] = jitter
			}
			_, err := many.Many(ctx, r, nil, "spread", body)
			return err
		}),
	}
	cmd.Flags().StringVar(&jitter, "jitter", "", "set this jitter, such as 5m, and leave cron expressions as they are")
	many.Add(cmd)
	cmd.Args = usage.Args(0, 0)
	return cmd
}

// RunFilter runs an operation on the runs that a filter selects, which has at least one field.
func (f *Flags) RunFilter(
	ctx context.Context, r *remote.Server, args []string, verb string, filter map[string]any,
) (bool, error) {
	if err := f.check(r.Cmd, args, f.all || len(filter) > 0); err != nil || len(args) > 0 {
		return err != nil, err
	}
	body := map[string]any{}
	if len(filter) > 0 {
		body["filter"] = filter
	}
	return true, f.send(ctx, r, "/runs:"+verb, body)
}
