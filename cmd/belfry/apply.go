package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/job"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// maxFile bounds a file of jobs.
const maxFile = 256 << 20

// fileJob is a job as a file has it.
type fileJob struct {
	name string
	at   string // file and line
	raw  []byte // JSON
}

// readJobs reads a file of jobs: YAML documents, each a job or a list of jobs.
func readJobs(stdin io.Reader, file string) ([]fileJob, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // the file that the user names
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	where := file
	if file == "-" {
		where = "standard input"
	}
	docs, err := documents(io.LimitReader(from, maxFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	var out []fileJob
	for _, doc := range docs {
		n := doc.Content[0]
		jobs := n.Content
		switch {
		case n.Kind == yaml.MappingNode:
			jobs = []*yaml.Node{n}
		case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
			continue // an empty document
		case n.Kind != yaml.SequenceNode:
			return nil, fmt.Errorf("%s line %d: it is not a job, nor a list of jobs", where, n.Line)
		}
		for _, j := range jobs {
			at := fmt.Sprintf("%s line %d", where, j.Line)
			if j.Kind != yaml.MappingNode {
				return nil, fmt.Errorf("%s: it is not a job", at)
			}
			dropServerFields(j)
			raw, err := jsonOf(j)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			var named struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal(raw, &named); err != nil {
				return nil, fmt.Errorf("%s: the name is not a text: %w", at, err)
			}
			out = append(out, fileJob{named.Name, at, raw})
		}
	}
	return out, nil
}

// readAll reads files of jobs whose names are all there, and are all different.
func readAll(cmd *cobra.Command, files []string) (out []fileJob, err error) {
	if len(files) == 0 {
		return nil, usagef("which file? %s -f FILE; - is the standard input", cmd.CommandPath())
	}
	seen := map[string]string{}
	for _, file := range files {
		jobs, err := readJobs(cmd.InOrStdin(), file)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			if j.name == "" {
				return nil, fmt.Errorf("%s: the job has no name", j.at)
			}
			if other := seen[j.name]; other != "" {
				return nil, fmt.Errorf("%s: the job %s is also in %s; names are unique", j.at, j.name, other)
			}
			seen[j.name] = j.at
			out = append(out, j)
		}
	}
	return out, nil
}

// The words of apply and diff.
const (
	created   = "created"
	changed   = "changed"
	unchanged = "unchanged"
	refused   = "refused"
)

// comparison is a job of a file, and what the server has of that name.
type comparison struct {
	fileJob
	verdict string
	version int32
	changes []change
}

// compare finds out what applying a job would do.
func (r *remote) compare(ctx context.Context, f fileJob) (c comparison, err error) {
	c = comparison{fileJob: f}
	wanted, err := normal(f.raw, true)
	if err != nil {
		return c, err
	}
	raw, err := r.get(ctx, jobPath(f.name), nil)
	if belfry.CodeOf(err) == "not_found" {
		c.verdict = created
		return c, nil
	}
	if err != nil {
		return c, err
	}
	found, err := normal(raw, false)
	if err != nil {
		return c, fmt.Errorf("the server's form of the job cannot be read; is this belfry older than the server? %w", err)
	}
	var versioned struct {
		Version int32 `json:"version"`
	}
	if err := json.Unmarshal(raw, &versioned); err != nil {
		return c, err
	}
	c.version, c.changes, c.verdict = versioned.Version, changes(found, wanted), unchanged
	if len(c.changes) > 0 {
		c.verdict = changed
	}
	return c, nil
}

// apply makes the server's job what the file says.
func (r *remote) apply(ctx context.Context, f fileJob) (verdict string, err error) {
	c, err := r.compare(ctx, f)
	if err != nil || c.verdict == unchanged {
		return c.verdict, err
	}
	q := belfry.Request{Method: http.MethodPut, Path: jobPath(f.name), Body: f.raw}
	if c.verdict == changed {
		q.Header = map[string]string{"If-Match": belfry.IfMatch(c.version)}
	}
	return c.verdict, r.Call(ctx, q, nil)
}

// normal is a definition in the one form that two of the same meaning share: with
// all defaults. strict refuses fields that a job does not have.
func normal(raw []byte, strict bool) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if strict {
		d.DisallowUnknownFields()
		fields, err := decodeObject(raw)
		if err != nil {
			return nil, err
		}
		known := fieldsOf[belfry.JobInput]()
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if !known[name] {
				return nil, fmt.Errorf("a job has no field %q; it has %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			}
		}
	}
	var def job.Definition
	if err := d.Decode(&def); err != nil {
		return nil, err
	}
	text, err := json.Marshal(def.WithDefaults())
	if err != nil {
		return nil, err
	}
	return decodeObject(text)
}

func newApply() *cobra.Command {
	var files []string
	cmd := remoteFlags(&cobra.Command{
		Use: "apply -f FILE", Short: "Create or change jobs as a file says", Args: wants(0, 0),
		Long: `Make the server's jobs what a YAML file says, by name: those that are not there are
created, those that differ are replaced, and the others are left alone. What a job
of the file leaves out has its default. Jobs that are in no file are not touched.

A file has one job, a list of jobs, or many documents with --- between them; the
fields are those of the API, and belfry job get -o yaml shows them.`,
		Example: `  belfry apply -f jobs.yaml
  belfry diff -f jobs.yaml && belfry apply -f jobs.yaml
  belfry job get report -o yaml | belfry apply -f -`,
		RunE: with(func(ctx context.Context, r *remote, _ []string) error {
			jobs, err := readAll(r.cmd, files)
			if err != nil {
				return err
			}
			return r.applyAll(ctx, jobs)
		}),
	})
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file with jobs, or - for the standard input; may be repeated")
	return cmd
}

// applied is a line of what apply prints.
type applied struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// applyAll goes on after a job that is refused, so that all that is wrong is told.
func (r *remote) applyAll(ctx context.Context, jobs []fileJob) error {
	bar := newProgress(r.cmd.ErrOrStderr(), r.cmd.Name(), int64(len(jobs)))
	results := []applied{}
	for i, j := range jobs {
		verdict, err := r.apply(ctx, j)
		a := applied{Name: j.name, Result: verdict}
		if err != nil {
			if ctx.Err() != nil {
				bar.end()
				return err
			}
			a.Result, a.Error = refused, j.at+": "+r.explain(err).Error()
		}
		results = append(results, a)
		bar.set(int64(i+1), int64(len(jobs)))
	}
	bar.end()
	return r.showApplied(results)
}

func (r *remote) showApplied(results []applied) error {
	count := map[string]int{}
	for _, a := range results {
		count[a.Result]++
		r.say("%s %s", verdictStyle(a.Result), a.Name)
		if a.Error != "" {
			r.note("%s: %s", a.Name, a.Error)
		}
	}
	raw, err := json.Marshal(results)
	if err != nil {
		return err
	}
	err = r.show(raw, func() error {
		r.say("%s", faint.Render(fmt.Sprintf("%d created, %d changed, %d unchanged, %d refused", count[created], count[changed], count[unchanged], count[refused])))
		return nil
	})
	if count[refused] > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d jobs were refused", count[refused], len(results)))
	}
	return err
}

func verdictStyle(verdict string) string {
	text := fmt.Sprintf("%-9s", verdict)
	switch verdict {
	case created:
		return green.Render(text)
	case changed:
		return yellow.Render(text)
	case refused:
		return red.Render(text)
	}
	return faint.Render(text)
}
