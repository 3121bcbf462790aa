package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newJobEdit() *cobra.Command {
	cmd := &cobra.Command{
		Use: "edit JOB", Short: "Change a job, by flags or in your editor", Args: wants(1, 1),
		Long: `Change a job. With flags, only what they name is changed. Without, the job is opened
in $VISUAL or $EDITOR, and what you save is sent. A job that somebody else changed
meanwhile is not overwritten.`,
		Example: `  belfry job edit report --cron '0 3 * * *' --timeout 2m
  EDITOR=nano belfry job edit report`,
		RunE: with(func(ctx context.Context, r *remote, args []string) error {
			raw, err := r.get(ctx, jobPath(args[0]), nil)
			if err != nil {
				return err
			}
			j, err := view[jobView](raw)
			if err != nil {
				return err
			}
			form, err := inputForm(raw)
			if err != nil {
				return err
			}
			var body []byte
			if anyJobFlag(r.cmd.Flags()) {
				body, err = editByFlags(r.cmd.Flags(), form)
			} else {
				body, err = r.editByHand(ctx, form, j)
			}
			if err != nil || body == nil {
				return err
			}
			return r.replace(ctx, j, body)
		}),
	}
	jobFlags(cmd.Flags())
	return cmd
}

// replace sends a new definition of a version of a job.
func (r *remote) replace(ctx context.Context, j jobView, body []byte) error {
	var raw []byte
	err := r.Call(ctx, belfry.Request{
		Method: http.MethodPut, Path: jobPath(j.ID), Body: body, Header: map[string]string{"If-Match": belfry.IfMatch(j.Version)},
	}, &raw)
	if err != nil {
		return err
	}
	return r.show(raw, func() error {
		now, err := view[jobView](raw)
		if err != nil {
			return err
		}
		r.say("%s %s %s", yellow.Render("changed"), now.Name, faint.Render(fmt.Sprintf("version %d", now.Version)))
		return nil
	})
}

// inputForm is a job as users write it: without what the server adds.
func inputForm(raw []byte) (*yaml.Node, error) {
	n, err := nodeOf(raw)
	if err != nil {
		return nil, err
	}
	input := fieldsOf[belfry.JobInput]()
	keepFields(n, func(name string) bool { return input[name] })
	return n, nil
}

// dropServerFields leaves out of a file what the server adds to a job, so that
// what belfry job get prints can be applied. A field that no job has stays, and
// is refused.
func dropServerFields(n *yaml.Node) {
	all, input := fieldsOf[belfry.Job](), fieldsOf[belfry.JobInput]()
	keepFields(n, func(name string) bool { return input[name] || !all[name] })
}

func keepFields(n *yaml.Node, keep func(name string) bool) {
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if keep(n.Content[i].Value) {
			kept = append(kept, n.Content[i], n.Content[i+1])
		}
	}
	n.Content = kept
}

// fieldsOf lists the fields of a type of the API.
func fieldsOf[T any]() map[string]bool {
	out := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = true
	}
	return out
}

func editByFlags(f *pflag.FlagSet, form *yaml.Node) ([]byte, error) {
	raw, err := jsonOf(form)
	if err != nil {
		return nil, err
	}
	job, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	if err := setFlags(f, job); err != nil {
		return nil, err
	}
	return json.Marshal(job)
}

// editByHand opens the job in an editor. It returns nothing if nothing was changed.
func (r *remote) editByHand(ctx context.Context, form *yaml.Node, j jobView) ([]byte, error) {
	text, err := encodeYAML(form)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "belfry-*.yaml")
	if err != nil {
		return nil, err
	}
	name := f.Name()
	defer func() { _ = os.Remove(name) }()
	_, err = fmt.Fprintf(f, "# %s, version %d. Save to change it; leave it as it is to change nothing.\n%s", j.ID, j.Version, text)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, err
	}
	before, err := os.ReadFile(name) //nolint:gosec // made above
	if err != nil {
		return nil, err
	}
	editor := first(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if editor == "" {
		if !term.IsTerminal(os.Stdin.Fd()) {
			return nil, usagef("there is no terminal to edit on; say what to change with flags, or set $EDITOR")
		}
		editor = "vi"
	}
	// A shell, for an editor may have arguments: "code --wait".
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", name) //nolint:gosec // the user's own editor
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor %s failed (set $EDITOR to another): %w", editor, err)
	}
	after, err := os.ReadFile(name) //nolint:gosec // made above
	if err != nil {
		return nil, err
	}
	if bytes.Equal(before, after) {
		r.say("%s %s", faint.Render("unchanged"), j.Name)
		return nil, nil
	}
	jobs, err := readJobs(bytes.NewReader(after), "-")
	if err != nil {
		return nil, err
	}
	if len(jobs) != 1 {
		return nil, fmt.Errorf("%d jobs were saved, and one was wanted; nothing is changed", len(jobs))
	}
	return jobs[0].raw, nil
}
