package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/usage"
)

// change is a field whose values differ. A missing value is nil.
type change struct {
	Field string `json:"field"`
	Old   any    `json:"old,omitempty"`
	New   any    `json:"new,omitempty"`
}

// changes lists the fields in which two objects differ.
func changes(old, wanted map[string]any) []change { return fieldChanges("", old, wanted, nil) }

func fieldChanges(path string, old, wanted map[string]any, out []change) []change {
	keys := map[string]bool{}
	for k := range old {
		keys[k] = true
	}
	for k := range wanted {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		a, b := old[k], wanted[k]
		inA, okA := a.(map[string]any)
		inB, okB := b.(map[string]any)
		switch {
		case okA && okB:
			out = fieldChanges(path+k+".", inA, inB, out)
		case !reflect.DeepEqual(a, b):
			out = append(out, change{path + k, a, b})
		}
	}
	return out
}

// difference is what diff prints for a job.
type difference struct {
	Name    string   `json:"name"`
	Result  string   `json:"result"`
	Changes []change `json:"changes,omitempty"`
}

// ErrDiffers is the error of diff --exit-code if there is a difference.
var ErrDiffers = errors.New("the server's jobs are not as the files say")

// DiffError means that diff could not compare. As with diff(1), the exit code is 2, because 1 means that
// there is a difference.
type DiffError struct{ error }

// Unwrap returns the error below.
func (e DiffError) Unwrap() error { return e.error }

func newDiff() *cobra.Command {
	var files []string
	var code bool
	cmd := remote.Flags(&cobra.Command{
		Use: "diff -f FILE", Short: "Print what belfry apply would do", Args: usage.Args(0, 0),
		Long: `Compare the jobs of a YAML file with the server's, by name, and print what belfry
apply would change. Nothing is changed.

The exit code is 0, and with --exit-code 1 if there is a difference. It is 2 if the
comparison could not be made: a file cannot be read, the server would refuse a job
or is unreachable.`,
		Example: `  belfry diff -f jobs.yaml
  belfry diff -f jobs.yaml --exit-code   # for CI: 1 if there is a difference, 2 if it could not be found out`,
	})
	run := remote.Run(func(ctx context.Context, r *remote.Server, _ []string) error {
		jobs, err := readAll(r.Cmd, files)
		if err != nil {
			return err
		}
		return diffAll(ctx, r, jobs, code)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil || errors.Is(err, ErrDiffers) {
			return err
		}
		return DiffError{err}
	}
	fileFlag(cmd, &files)
	cmd.Flags().BoolVar(&code, "exit-code", false, "exit with 1 if there is a difference")
	return cmd
}

func diffAll(ctx context.Context, r *remote.Server, jobs []Job, code bool) error {
	found, err := compareAll(ctx, r, jobs)
	if err != nil {
		return err
	}
	results, differs := []difference{}, false
	for _, c := range found {
		results = append(results, difference{c.Name, planned[c.result], c.changes})
		differs = differs || c.result != unchanged
		r.Line("%s %s", styled(planned[c.result]), terminal.Clean(c.Name))
		for _, change := range c.changes {
			r.Line("    %s: %s → %s", terminal.Clean(change.Field),
				terminal.Red.Render(brief(change.Old)), terminal.Green.Render(brief(change.New)))
		}
	}
	raw, err := json.Marshal(results)
	if err != nil {
		return err
	}
	if err := r.Show(raw, func() error { return nil }); err != nil {
		return err
	}
	if differs && code {
		return ErrDiffers
	}
	return nil
}

// compareAll compares all jobs with the server's. Its error lists every job that the server would refuse.
func compareAll(ctx context.Context, r *remote.Server, jobs []Job) ([]comparison, error) {
	found := make([]comparison, len(jobs))
	bar := terminal.NewProgress(r.Cmd.ErrOrStderr(), "diff", int64(len(jobs)))
	defer bar.End()
	which := make([]int, len(jobs))
	for i := range which {
		which[i] = i
	}
	var done atomic.Int64
	refusals := make([]error, len(jobs))
	err := eachOf(ctx, which, func(ctx context.Context, i int) (err error) {
		found[i], err = compare(ctx, r, jobs[i])
		if err == nil {
			err = validate(ctx, r, jobs[i])
		}
		if err != nil && !remote.IsHopeless(err) && ctx.Err() == nil {
			refusals[i], err = fmt.Errorf("%s: %s: %w", jobs[i].At, jobs[i].Name, r.Explain(err, nil)), nil
		}
		bar.Set(done.Add(1), int64(len(jobs)))
		return err
	})
	if err == nil {
		err = errors.Join(refusals...)
	}
	return found, err
}

// brief formats a value on one line.
func brief(v any) string {
	if v == nil {
		return "none"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return terminal.Clean(terminal.Truncate(string(text), 120))
}
