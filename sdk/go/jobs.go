package belfry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Jobs creates, changes and reads jobs. Where a method takes a job, it accepts its name or its id.
type Jobs struct{ c *Client }

// path returns the path of a job, or of what is below it.
func (j Jobs) path(job, below string) string { return "/jobs/" + PathEscape(job) + below }

// Create creates a job. If a job with this name exists, the error has the code conflict.
func (j Jobs) Create(ctx context.Context, in JobInput, opts ...CallOption) (*Job, error) {
	return post[Job](ctx, j.c, "/jobs", in, withKey(opts))
}

// CreateAll creates up to 5,000 jobs in one request. The result says for each of them whether it was created.
func (j Jobs) CreateAll(ctx context.Context, in []JobInput, opts ...CallOption) (*BulkResult, error) {
	var lines bytes.Buffer
	for i := range in {
		line, err := json.Marshal(in[i])
		if err != nil {
			return nil, fmt.Errorf("belfry: job %q: %w", in[i].Name, err)
		}
		lines.Write(append(line, '\n'))
	}
	opts = append([]CallOption{header("Content-Type", "application/x-ndjson")}, opts...)
	return post[BulkResult](ctx, j.c, "/jobs:bulk", lines.Bytes(), withKey(opts))
}

// Put creates a job, or replaces the definition of the job with this name.
func (j Jobs) Put(ctx context.Context, in JobInput, opts ...CallOption) (*Job, error) {
	return put[Job](ctx, j.c, j.path(in.Name, ""), in, opts)
}

// Update changes the fields of a job that are set in the patch.
func (j Jobs) Update(ctx context.Context, job string, patch JobPatch, opts ...CallOption) (*Job, error) {
	return result[Job](ctx, j.c, Request{Method: http.MethodPatch, Path: j.path(job, ""), Body: patch}, opts)
}

// Get reads a job.
func (j Jobs) Get(ctx context.Context, job string, opts ...CallOption) (*Job, error) {
	return get[Job](ctx, j.c, j.path(job, ""), nil, opts)
}

// GetRecent reads a job with its newest runs and skips.
func (j Jobs) GetRecent(ctx context.Context, job string, opts ...CallOption) (*Job, error) {
	return get[Job](ctx, j.c, j.path(job, ""), params("include", "recent"), opts)
}

// Delete deletes a job and its pending runs. History and dead letters stay.
func (j Jobs) Delete(ctx context.Context, job string, opts ...CallOption) error {
	return j.c.call(ctx, Request{Method: http.MethodDelete, Path: j.path(job, "")}, nil, opts)
}

// JobFilter selects jobs. A field with its zero value selects all.
type JobFilter struct {
	Labels         map[string]string // all of them
	State          JobState
	Name           string // part of the name
	Target         string // kind of the target
	Queue          string
	DueFrom, DueTo time.Time // next due time: from is inclusive, to is exclusive

	WithRecent bool // selects none: each job has its newest runs and skips
}

// List iterates over the jobs that a filter selects.
func (j Jobs) List(ctx context.Context, f JobFilter, opts ...CallOption) iter.Seq2[Job, error] {
	query := params("state", string(f.State), "name", f.Name, "target", f.Target, "queue", f.Queue,
		"due_from", instant(f.DueFrom), "due_to", instant(f.DueTo))
	if f.WithRecent {
		query.Set("include", "recent")
	}
	for k, v := range f.Labels {
		query.Add("label", k+"="+v)
	}
	return list[Job](ctx, j.c, "/jobs", query, opts)
}

// Pause stops a job from creating runs until Resume. The note says why, for people.
func (j Jobs) Pause(ctx context.Context, job, note string, opts ...CallOption) (*Job, error) {
	return post[Job](ctx, j.c, j.path(job, ":pause"), PauseJobRequest{Note: note}, opts)
}

// Resume ends a pause. The job's missed policy decides about the occurrences of the pause.
func (j Jobs) Resume(ctx context.Context, job string, opts ...CallOption) (*ResumedJob, error) {
	return post[ResumedJob](ctx, j.c, j.path(job, ":resume"), nil, opts)
}

// Trigger runs a job now. The zero TriggerRequest uses the payload of the job.
func (j Jobs) Trigger(ctx context.Context, job string, in TriggerRequest, opts ...CallOption) (*RunDetail, error) {
	return post[RunDetail](ctx, j.c, j.path(job, ":trigger"), in, withKey(opts))
}

// Backfill creates runs for due times of the past.
func (j Jobs) Backfill(ctx context.Context, job string, in BackfillRequest, opts ...CallOption) (*Backfill, error) {
	return post[Backfill](ctx, j.c, j.path(job, ":backfill"), in, withKey(opts))
}

// Preview returns the next occurrences of a job, at most n, and what DST does to them.
func (j Jobs) Preview(ctx context.Context, job string, n int, opts ...CallOption) (*Preview, error) {
	var query url.Values
	if n > 0 {
		query = params("count", strconv.Itoa(n))
	}
	return get[Preview](ctx, j.c, j.path(job, "/preview"), query, opts)
}

// Timeline returns each occurrence of a job in a range, which includes its begin and not its end: what ran, what was
// skipped and why, and what is planned. With zero times it is from 14 days ago to 7 days ahead.
func (j Jobs) Timeline(ctx context.Context, job string, from, to time.Time, opts ...CallOption) (*Timeline, error) {
	return get[Timeline](ctx, j.c, j.path(job, "/timeline"), params("from", instant(from), "to", instant(to)), opts)
}

// Stats counts what a job did with the occurrences of a range, which includes its begin and not its end. With zero
// times these are the last 14 days.
func (j Jobs) Stats(ctx context.Context, job string, from, to time.Time, opts ...CallOption) (*JobStats, error) {
	return get[JobStats](ctx, j.c, j.path(job, "/stats"), params("from", instant(from), "to", instant(to)), opts)
}

// Labels returns the keys of the labels of jobs.
func (j Jobs) Labels(ctx context.Context, opts ...CallOption) (*LabelList, error) {
	return get[LabelList](ctx, j.c, "/labels", nil, opts)
}

// LabelValues returns the values of a label that begin with a prefix, which may be empty.
func (j Jobs) LabelValues(ctx context.Context, key, prefix string, opts ...CallOption) (*LabelValueList, error) {
	return get[LabelValueList](ctx, j.c, "/labels/"+PathEscape(key), params("prefix", prefix), opts)
}

// Why explains what happened to the occurrence at a due time. With the zero time it explains the newest run, and the
// next occurrence.
func (j Jobs) Why(ctx context.Context, job string, at time.Time, opts ...CallOption) (*Explanation, error) {
	return get[Explanation](ctx, j.c, j.path(job, "/why"), params("at", instant(at)), opts)
}
