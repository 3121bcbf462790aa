package files

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// The results that apply and diff print for a job.
const (
	created   = "created"
	changed   = "changed"
	unchanged = "unchanged"
	refused   = "refused"
	deleted   = "deleted"
)

// planned names what diff says about a result of apply, which has not happened yet.
var planned = map[string]string{
	created: "create", changed: "change", unchanged: "unchanged", deleted: "delete",
}

func newApply() *cobra.Command {
	var files []string
	var p pruning
	cmd := remote.Flags(&cobra.Command{
		Use: "apply -f FILE...", Short: "Create or change jobs as files say",
		Long: `Make the server's jobs what YAML files say, by name: those that are not there are
created, those that differ are replaced, and the others are left alone. What a job
of the file leaves out has its default. Jobs that are in no file are left alone,
unless --prune deletes them: it deletes jobs that carry the label of --set, which an
earlier apply gave them.

FILE may be a directory: all of its .yaml and .yml files are read, including those
in subdirectories. A file has one job, a list of jobs, or many documents with ---
between them; the fields are those of the API, and belfry job get -o yaml shows them.

A job that is refused does not keep the others from being applied. If the server
is unreachable or rejects the key, the command stops. Run it again to continue.`,
		Example: `  belfry apply -f jobs.yaml
  belfry diff -f jobs.yaml && belfry apply -f jobs.yaml
  belfry apply -f jobs/ --set billing --prune
  belfry job get report -o yaml | belfry apply -f -`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			return p.apply(ctx, r, append(files, args...))
		}),
	})
	fileFlag(cmd, &files)
	p.flags(cmd, "after a question, delete")
	cmd.Flags().BoolVar(&p.yes, "yes", false, "with --prune: delete without a question")
	return cmd
}

// fileFlag adds -f. Further arguments are files too, because that is what a shell makes of -f jobs/*.yaml.
func fileFlag(cmd *cobra.Command, files *[]string) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(*files) > 0 {
			return nil
		}
		return usage.Args(0, 0)(cmd, args)
	}
	cmd.Flags().StringArrayVarP(files, "file", "f", nil,
		"file with jobs, directory of YAML files, or - for the standard input; may be repeated")
}

// styled pads and colours a result.
func styled(result string) string {
	text := fmt.Sprintf("%-9s", result)
	switch result {
	case created, planned[created]:
		return terminal.Green.Render(text)
	case changed, planned[changed]:
		return terminal.Yellow.Render(text)
	case refused, deleted, planned[deleted]:
		return terminal.Red.Render(text)
	}
	return terminal.Faint.Render(text)
}
