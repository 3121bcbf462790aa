package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/job"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

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
fields are those of the API, and belfry job get -o yaml shows them.

A job that is refused does not keep the others from being applied. A server that is
away, or does not take the key, ends it at once; run it again, and it goes on.`,
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
