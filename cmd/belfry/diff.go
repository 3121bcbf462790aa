package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

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

func newDiff() *cobra.Command {
	var files []string
	var code bool
	cmd := remoteFlags(&cobra.Command{
		Use: "diff -f FILE", Short: "Say what belfry apply would do", Args: wants(0, 0),
		Long: `Compare the jobs of a YAML file with the server's, by name, and print what belfry
apply would change. Nothing is changed.`,
		Example: `  belfry diff -f jobs.yaml
  belfry diff -f jobs.yaml --exit-code   # fails if there is a difference, for CI`,
		RunE: with(func(ctx context.Context, r *remote, _ []string) error {
			jobs, err := readAll(r.cmd, files)
			if err != nil {
				return err
			}
			return r.diffAll(ctx, jobs, code)
		}),
	})
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file with jobs, or - for the standard input; may be repeated")
	cmd.Flags().BoolVar(&code, "exit-code", false, "fail if there is a difference")
	return cmd
}

func (r *remote) diffAll(ctx context.Context, jobs []fileJob, code bool) error {
	results, differs := []difference{}, false
	for _, j := range jobs {
		c, err := r.compare(ctx, j)
		if err != nil {
			return errors.Join(errors.New(j.at+": "+j.name), err)
		}
		results = append(results, difference{j.name, c.verdict, c.changes})
		differs = differs || c.verdict != unchanged
		r.say("%s %s", verdictStyle(c.verdict), j.name)
		for _, change := range c.changes {
			r.say("    %s: %s → %s", change.Field, red.Render(brief(change.Old)), green.Render(brief(change.New)))
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
		return string(r[:most-1]) + "…"
	}
	return string(text)
}
