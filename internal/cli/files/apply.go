package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/job"
	belfry "github.com/belfry-dev/belfry/sdk/go"
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

// comparison compares a job of a file with the server's job of that name.
type comparison struct {
	Job
	result  string
	version int32
}

// compare finds out what applying a job would do.
func compare(ctx context.Context, r *remote.Server, j Job) (c comparison, err error) {
	c = comparison{Job: j}
	wanted, err := strictDefinition(j.Raw)
	if err != nil {
		return c, invalid(ctx, r, j, err)
	}
	raw, err := r.Get(ctx, remote.JobPath(j.Name), nil)
	if belfry.CodeOf(err) == "not_found" {
		c.result = created
		return c, nil
	}
	if err != nil {
		return c, err
	}
	found, err := definitionOf(raw)
	if err != nil {
		return c, fmt.Errorf("the server's form of the job cannot be read;"+
			" is this belfry older than the server? %w", err)
	}
	var versioned struct {
		Version int32 `json:"version"`
	}
	if err := json.Unmarshal(raw, &versioned); err != nil {
		return c, err
	}
	if found.Labels[setLabel] != "" && wanted.Labels[setLabel] == "" {
		return c, errOwned
	}
	changes, err := job.Changes(found, wanted)
	if err != nil {
		return c, err
	}
	c.version, c.result = versioned.Version, unchanged
	if len(changes) > 0 {
		c.result = changed
	}
	return c, nil
}

// validate asks the server whether it would accept a job, and changes nothing.
func validate(ctx context.Context, r *remote.Server, j Job) error {
	err := r.Call(ctx, belfry.Request{
		Method: http.MethodPost, Path: "/jobs:preview", Body: map[string]any{"job": json.RawMessage(j.Raw), "count": 1},
	}, nil)
	if p, ok := errors.AsType[*belfry.Problem](err); ok {
		for i := range p.Problems { // name the fields as in the file
			p.Problems[i].Field = strings.TrimPrefix(p.Problems[i].Field, "job.")
		}
	}
	return err
}

// invalid explains why a job cannot be decoded. The server knows more than the decoder: all problems, their
// fields, and how to fix them.
func invalid(ctx context.Context, r *remote.Server, j Job, err error) error {
	if found := validate(ctx, r, j); found != nil {
		return found
	}
	return err
}

// applyOne makes the server's job what the file says.
func applyOne(ctx context.Context, r *remote.Server, j Job) (result string, err error) {
	c, err := compare(ctx, r, j)
	if err != nil {
		return c.result, err
	}
	if c.result == unchanged { // what equals a default here may be invalid, such as max_attempts: 0
		return c.result, validate(ctx, r, j)
	}
	q := belfry.Request{Method: http.MethodPut, Path: remote.JobPath(j.Name), Body: j.Raw}
	if c.result == changed {
		q.Header = map[string]string{"If-Match": belfry.IfMatch(c.version)}
	}
	return c.result, r.Call(ctx, q, nil)
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

FILE may be a directory: all of its .yaml and .yml files are read. A file has one
job, a list of jobs, or many documents with --- between them; the fields are those
of the API, and belfry job get -o yaml shows them.

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
