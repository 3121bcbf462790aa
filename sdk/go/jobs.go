package belfry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Jobs creates, changes and reads jobs. Where a method takes a job, it accepts its name or its id.
type Jobs struct{ api *ClientWithResponses }

// Create creates a job. If a job with this name exists, the error has the code conflict.
func (j Jobs) Create(ctx context.Context, in JobInput, opts ...CallOption) (*Job, error) {
	r, err := j.api.CreateJobWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON201, r)
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
	r, err := j.api.CreateJobsWithBodyWithResponse(ctx, nil, "application/x-ndjson", &lines, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Put creates a job, or replaces the definition of the job with this name.
func (j Jobs) Put(ctx context.Context, in JobInput, opts ...CallOption) (*Job, error) {
	r, err := j.api.ReplaceJobWithResponse(ctx, in.Name, nil, in, opts...)
	if err != nil {
		return nil, err
	}
	if r.JSON201 != nil {
		return r.JSON201, nil
	}
	return result(r.JSON200, r)
}

// Update changes the fields of a job that are set in the patch.
func (j Jobs) Update(ctx context.Context, job string, patch JobPatch, opts ...CallOption) (*Job, error) {
	r, err := j.api.UpdateJobWithApplicationMergePatchPlusJSONBodyWithResponse(ctx, job, nil, patch, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Get reads a job.
func (j Jobs) Get(ctx context.Context, job string, opts ...CallOption) (*Job, error) {
	r, err := j.api.GetJobWithResponse(ctx, job, nil, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// GetRecent reads a job with its newest runs and skips.
func (j Jobs) GetRecent(ctx context.Context, job string, opts ...CallOption) (*Job, error) {
	in := GetJobParams{Include: optional(GetJobParamsIncludeRecent)}
	r, err := j.api.GetJobWithResponse(ctx, job, &in, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Delete deletes a job and its pending runs. History and dead letters stay.
func (j Jobs) Delete(ctx context.Context, job string, opts ...CallOption) error {
	_, err := j.api.DeleteJobWithResponse(ctx, job, nil, opts...)
	return err
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
	in := ListJobsParams{
		State: optional(ListJobsParamsState(f.State)), Name: optional(f.Name), Target: optional(f.Target),
		Queue: optional(f.Queue), DueFrom: optionalTime(f.DueFrom), DueTo: optionalTime(f.DueTo),
	}
	if f.WithRecent {
		in.Include = optional(ListJobsParamsIncludeRecent)
	}
	if len(f.Labels) > 0 {
		labels := make([]string, 0, len(f.Labels))
		for k, v := range f.Labels {
			labels = append(labels, k+"="+v)
		}
		in.Label = &labels
	}
	return Pages(func(token string) ([]Job, string, error) {
		in.PageToken = optional(token)
		r, err := j.api.ListJobsWithResponse(ctx, &in, opts...)
		if err != nil {
			return nil, "", err
		}
		page, err := result(r.JSON200, r)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.NextPageToken, nil
	})
}

// Pause stops a job from creating runs until Resume. The note says why, for people.
func (j Jobs) Pause(ctx context.Context, job, note string, opts ...CallOption) (*Job, error) {
	r, err := j.api.PauseJobWithResponse(ctx, job, nil, PauseJobRequest{Note: note}, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Resume ends a pause. The job's missed policy decides about the occurrences of the pause.
func (j Jobs) Resume(ctx context.Context, job string, opts ...CallOption) (*ResumedJob, error) {
	r, err := j.api.ResumeJobWithResponse(ctx, job, nil, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Trigger runs a job now. The zero TriggerRequest uses the payload of the job.
func (j Jobs) Trigger(ctx context.Context, job string, in TriggerRequest, opts ...CallOption) (*RunDetail, error) {
	r, err := j.api.TriggerJobWithResponse(ctx, job, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON202, r)
}

// Backfill creates runs for due times of the past.
func (j Jobs) Backfill(ctx context.Context, job string, in BackfillRequest, opts ...CallOption) (*Backfill, error) {
	r, err := j.api.BackfillJobWithResponse(ctx, job, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON202, r)
}

// Preview returns the next occurrences of a job, at most n, and what DST does to them.
func (j Jobs) Preview(ctx context.Context, job string, n int, opts ...CallOption) (*Preview, error) {
	r, err := j.api.PreviewJobWithResponse(ctx, job, &PreviewJobParams{Count: optional(int64(n))}, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Timeline returns each occurrence of a job in a range, which includes its begin and not its end: what ran, what was
// skipped and why, and what is planned. With zero times it is from 14 days ago to 7 days ahead.
func (j Jobs) Timeline(ctx context.Context, job string, from, to time.Time, opts ...CallOption) (*Timeline, error) {
	in := GetJobTimelineParams{From: optionalTime(from), To: optionalTime(to)}
	r, err := j.api.GetJobTimelineWithResponse(ctx, job, &in, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Stats counts what a job did with the occurrences of a range, which includes its begin and not its end. With zero
// times these are the last 14 days.
func (j Jobs) Stats(ctx context.Context, job string, from, to time.Time, opts ...CallOption) (*JobStats, error) {
	in := GetJobStatsParams{From: optionalTime(from), To: optionalTime(to)}
	r, err := j.api.GetJobStatsWithResponse(ctx, job, &in, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Labels returns the keys of the labels of jobs.
func (j Jobs) Labels(ctx context.Context, opts ...CallOption) (*LabelList, error) {
	r, err := j.api.ListLabelsWithResponse(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// LabelValues returns the values of a label that begin with a prefix, which may be empty.
func (j Jobs) LabelValues(ctx context.Context, key, prefix string, opts ...CallOption) (*LabelValueList, error) {
	r, err := j.api.ListLabelValuesWithResponse(ctx, key, &ListLabelValuesParams{Prefix: optional(prefix)}, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Why explains what happened to the occurrence at a due time. With the zero time it explains the newest run, and the
// next occurrence.
func (j Jobs) Why(ctx context.Context, job string, at time.Time, opts ...CallOption) (*Explanation, error) {
	var in ExplainJobParams
	if !at.IsZero() {
		in.At = optional(at.UTC().Format(time.RFC3339Nano))
	}
	r, err := j.api.ExplainJobWithResponse(ctx, job, &in, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}
