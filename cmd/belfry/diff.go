package main

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
)

// change is a field whose value differs. Without a value there is none.
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

// difference is what diff prints of a job.
type difference struct {
	Name    string   `json:"name"`
	Result  string   `json:"result"`
	Changes []change `json:"changes,omitempty"`
}

var errDiffers = errors.New("the server's jobs are not as the files say")

// diffError is what went wrong with a comparison. Its exit code is not that of a
// difference.
type diffError struct{ error }

func (e diffError) Unwrap() error { return e.error }

func newDiff() *cobra.Command {
	var files []string
	var code bool
	cmd := remoteFlags(&cobra.Command{
		Use: "diff -f FILE", Short: "Say what belfry apply would do", Args: wants(0, 0),
		Long: `Compare the jobs of a YAML file with the server's, by name, and print what belfry
apply would change. Nothing is changed.

The exit code is 0, and with --exit-code 1 if there is a difference. It is 2 if the
comparison could not be made: a file cannot be read, the server is away.`,
		Example: `  belfry diff -f jobs.yaml
  belfry diff -f jobs.yaml --exit-code   # for CI: 1 if there is a difference, 2 if it could not be found out`,
	})
	compare := with(func(ctx context.Context, r *remote, _ []string) error {
		jobs, err := readAll(r.cmd, files)
		if err != nil {
			return err
		}
		return r.diffAll(ctx, jobs, code)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := compare(cmd, args)
		if err == nil || errors.Is(err, errDiffers) {
			return err
		}
		return diffError{err}
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file with jobs, or - for the standard input; may be repeated")
	cmd.Flags().BoolVar(&code, "exit-code", false, "exit with 1 if there is a difference")
	return cmd
}

func (r *remote) diffAll(ctx context.Context, jobs []fileJob, code bool) error {
	found := make([]comparison, len(jobs))
	bar := newProgress(r.cmd.ErrOrStderr(), "diff", int64(len(jobs)))
	defer bar.end()
	which := make([]int, len(jobs))
	for i := range which {
		which[i] = i
	}
	var done atomic.Int64
	err := eachOf(ctx, which, func(ctx context.Context, i int) (err error) {
		if found[i], err = r.compare(ctx, jobs[i]); err != nil && !hopeless(err) && ctx.Err() == nil {
			err = fmt.Errorf("%s: %s: %w", jobs[i].at, jobs[i].name, err)
		}
		bar.set(done.Add(1), int64(len(jobs)))
		return err
	})
	bar.end()
	if err != nil {
		return err
	}
	results, differs := []difference{}, false
	for _, c := range found {
		results = append(results, difference{c.name, c.verdict, c.changes})
		differs = differs || c.verdict != unchanged
		r.say("%s %s", verdictStyle(c.verdict), clean(c.name))
		for _, change := range c.changes {
			r.say("    %s: %s → %s", clean(change.Field), red.Render(brief(change.Old)), green.Render(brief(change.New)))
		}
	}
	raw, err := json.Marshal(results)
	if err != nil {
		return err
	}
	if err := r.show(raw, func() error { return nil }); err != nil {
		return err
	}
	if differs && code {
		return errDiffers
	}
	return nil
}

// brief is a value on one line.
func brief(v any) string {
	if v == nil {
		return "none"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	const most = 120
	if r := []rune(string(text)); len(r) > most {
		text = []byte(string(r[:most-1]) + "…")
	}
	return clean(string(text))
}
