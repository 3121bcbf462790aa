package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// change is a field whose values differ. A missing value is nil.
type change struct {
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old,omitempty"`
	New   json.RawMessage `json:"new,omitempty"`
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
	var p pruning
	var code bool
	cmd := remote.Flags(&cobra.Command{
		Use: "diff -f FILE...", Short: "Print what belfry apply would do",
		Long: `Compare the jobs of YAML files with the server's, by name, and print what belfry apply
would change with the same -f, --set and --prune. Nothing is changed.

The exit code is 0, and with --exit-code 1 if there is a difference. It is 2 if the
comparison could not be made: a file cannot be read, the server would refuse a job
or is unreachable.`,
		Example: `  belfry diff -f jobs.yaml
  belfry diff -f jobs/ --set billing --prune
  belfry diff -f jobs.yaml --exit-code   # for CI: 1 if there is a difference, 2 if it could not be found out`,
	})
	run := remote.Run(func(ctx context.Context, r *remote.Server, args []string) error {
		jobs, gone, err := p.read(ctx, r, append(files, args...))
		if err != nil {
			return err
		}
		return diffAll(ctx, r, jobs, gone, code)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil || errors.Is(err, ErrDiffers) {
			return err
		}
		return DiffError{err}
	}
	fileFlag(cmd, &files)
	p.flags(cmd, "also print")
	cmd.Flags().BoolVar(&code, "exit-code", false, "exit with 1 if there is a difference")
	return cmd
}

func diffAll(ctx context.Context, r *remote.Server, jobs []Job, gone []obsoleteJob, code bool) error {
	found, err := compareAll(ctx, r, jobs)
	if err != nil {
		return err
	}
	for _, j := range gone {
		found = append(found, difference{Name: j.Name, Result: planned[deleted]})
	}
	differs := false
	for _, d := range found {
		differs = differs || d.Result != unchanged
		r.Line("%s %s", styled(d.Result), terminal.Clean(d.Name))
		for _, change := range d.Changes {
			r.Line("    %s: %s → %s", terminal.Clean(change.Field),
				terminal.Red.Render(brief(change.Old)), terminal.Green.Render(brief(change.New)))
		}
	}
	raw, err := json.Marshal(found)
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

// lineDiff is what the server says about one job.
type lineDiff struct {
	Result  string `json:"result"`
	Version int32  `json:"version"`
	Fields  []struct {
		Field   string          `json:"field"`
		Before  json.RawMessage `json:"before"`
		After   json.RawMessage `json:"after"`
		Omitted bool            `json:"omitted"`
	} `json:"fields"`
	More     int                   `json:"more_fields"`
	Problems []belfry.FieldProblem `json:"problems"`
}

// compareAll compares all jobs with the server's. Its error lists every job that apply would refuse.
func compareAll(ctx context.Context, r *remote.Server, jobs []Job) (found []difference, err error) {
	bar := terminal.NewProgress(r.Cmd.ErrOrStderr(), "diff", int64(len(jobs)))
	defer bar.End()
	var refusals []error
	for _, part := range batches(jobs) {
		lines, err := compare(ctx, r, part)
		if err != nil {
			return nil, err
		}
		for i, d := range lines {
			j := part[i]
			if err := d.refusal(&j); err != nil {
				refusals = append(refusals, fmt.Errorf("%s: %s: %w", j.At, j.Name, r.Explain(err, nil)))
			}
			found = append(found, d.of(j.Name))
		}
		bar.Set(int64(len(found)), int64(len(jobs)))
	}
	return found, errors.Join(refusals...)
}

// compare asks the server what saving the jobs of one batch would change. If the answer had no space for labels, it
// asks for fewer jobs: they say to which set of files a job belongs.
func compare(ctx context.Context, r *remote.Server, part []Job) ([]lineDiff, error) {
	found, err := sendLines[lineDiff](ctx, r, belfry.Request{Path: "/jobs:diff"}, part)
	if err != nil || len(part) == 1 || !slices.ContainsFunc(found, lineDiff.lacksLabels) {
		return found, err
	}
	half := len(part) / 2
	if found, err = compare(ctx, r, part[:half]); err != nil {
		return nil, err
	}
	rest, err := compare(ctx, r, part[half:])
	return append(found, rest...), err
}

func (d lineDiff) lacksLabels() bool {
	for _, f := range d.Fields {
		if f.Omitted && strings.HasPrefix(f.Field, "labels") {
			return true
		}
	}
	return d.More > 0
}

// refusal returns why apply would not save a job.
func (d *lineDiff) refusal(j *Job) error {
	switch {
	case d.Result == refused:
		for i := range d.Problems {
			d.Problems[i].Field = j.withLine(d.Problems[i].Field)
		}
		return &belfry.Problem{Code: "invalid", Title: "The request is not valid", Problems: d.Problems}
	case d.takesFromSet():
		return errOwned
	}
	return nil
}

// takesFromSet reports whether the server's job has the label of a set, and the file has another one or none.
func (d *lineDiff) takesFromSet() bool {
	for _, f := range d.Fields {
		all := f.Field == "labels" && f.After == nil && bytes.Contains(f.Before, []byte(`"`+setLabel+`"`))
		if all || f.Field == "labels."+setLabel && f.Before != nil {
			return true
		}
	}
	return false
}

// of returns the difference of the job with a name.
func (d *lineDiff) of(name string) difference {
	out := difference{Name: name, Result: d.Result}
	if d.Result == "same" {
		out.Result = unchanged
	}
	for _, f := range d.Fields {
		out.Changes = append(out.Changes, change{f.Field, f.Before, f.After})
	}
	return out
}

// brief formats a value on one line.
func brief(v json.RawMessage) string {
	if v == nil {
		return "none"
	}
	return terminal.Clean(terminal.Truncate(string(v), 120))
}
