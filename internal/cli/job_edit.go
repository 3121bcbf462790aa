package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/cli/files"
	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
	"github.com/belfry-dev/belfry/internal/cli/yamljson"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func newJobEdit() *cobra.Command {
	cmd := &cobra.Command{
		Use: "edit JOB", Short: "Change a job, by flags or in your editor", Args: usage.Args(1, 1),
		Long: `Change a job. With flags, only what they name is changed. Without, the job is opened
in $VISUAL or $EDITOR, and what you save is sent. A job that was changed by others
meanwhile is not overwritten.`,
		Example: `  belfry job edit report --cron '0 3 * * *' --timeout 2m
  EDITOR=nano belfry job edit report`,
		RunE: remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
			raw, err := r.Get(ctx, remote.JobPath(args[0]), nil)
			if err != nil {
				return err
			}
			j, err := terminal.Decode[jobView](raw)
			if err != nil {
				return err
			}
			form, err := files.InputForm(raw)
			if err != nil {
				return err
			}
			var body []byte
			if anyJobFlag(r.Cmd.Flags()) {
				body, err = editByFlags(r.Cmd.Flags(), form)
			} else {
				body, err = editByHand(ctx, r, form, j)
			}
			if err != nil || body == nil {
				return err
			}
			return replaceJob(ctx, r, j, body)
		}),
	}
	jobFlags(cmd.Flags())
	return cmd
}

// replaceJob sends a new definition. The server rejects it if the job has changed since j was read.
func replaceJob(ctx context.Context, r *remote.Server, j jobView, body []byte) error {
	var raw []byte
	err := r.Call(ctx, belfry.Request{
		Method: http.MethodPut, Path: remote.JobPath(j.ID), Body: body,
		Header: map[string]string{"If-Match": belfry.IfMatch(j.Version)},
	}, &raw)
	if err != nil {
		return err
	}
	return r.Show(raw, func() error {
		now, err := terminal.Decode[jobView](raw)
		if err != nil {
			return err
		}
		if now.Version == j.Version {
			r.Line("%s %s", terminal.Faint.Render("unchanged"), now.Name)
			return nil
		}
		r.Line("%s %s %s", terminal.Yellow.Render("changed"), now.Name,
			terminal.Faint.Render(fmt.Sprintf("version %d", now.Version)))
		now.warn(r)
		return nil
	})
}

func editByFlags(f *pflag.FlagSet, form *yaml.Node) ([]byte, error) {
	raw, err := yamljson.ToJSON(form)
	if err != nil {
		return nil, err
	}
	job, err := yamljson.DecodeObject(raw)
	if err != nil {
		return nil, err
	}
	if err := setFlags(f, job); err != nil {
		return nil, err
	}
	return json.Marshal(job)
}

// editByHand opens the job in an editor and returns what the user saved, or nothing if it is unchanged.
func editByHand(ctx context.Context, r *remote.Server, form *yaml.Node, j jobView) ([]byte, error) {
	text, err := yamljson.Encode(form)
	if err != nil {
		return nil, err
	}
	before := fmt.Appendf(nil, "# %s, version %d. Save to change it; leave it as it is to change nothing.\n%s",
		j.ID, j.Version, text)
	after, err := openEditor(ctx, before)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(before, after) {
		r.Line("%s %s", terminal.Faint.Render("unchanged"), j.Name)
		return nil, nil
	}
	jobs, err := files.Read(bytes.NewReader(after), "-")
	if err != nil {
		return nil, err
	}
	if len(jobs) != 1 {
		return nil, fmt.Errorf("%d jobs were saved, and one was wanted; nothing is changed", len(jobs))
	}
	return jobs[0].Raw, nil
}

// openEditor lets the user edit text in a temporary file, and returns what they saved.
func openEditor(ctx context.Context, text []byte) ([]byte, error) {
	f, err := os.CreateTemp("", "belfry-*.yaml")
	if err != nil {
		return nil, err
	}
	name := f.Name()
	defer func() { _ = os.Remove(name) }()
	if _, err = f.Write(text); err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, err
	}
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if editor == "" {
		if !term.IsTerminal(os.Stdin.Fd()) {
			return nil, usage.Errorf("there is no terminal to edit on; say what to change with flags, or set $EDITOR")
		}
		editor = "vi"
	}
	// A shell, because the setting may have arguments, such as "code --wait".
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", name) //nolint:gosec // the user's own editor
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor %s failed (set $EDITOR to another): %w", editor, err)
	}
	return os.ReadFile(name) //nolint:gosec // created above
}
