package belfry

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Runs reads, cancels and repeats runs.
type Runs struct{ c *Client }

// path returns the path of a run, or of a verb for it.
func (r Runs) path(run, verb string) string { return "/runs/" + PathEscape(run) + verb }

// Get reads a run with its attempts.
func (r Runs) Get(ctx context.Context, run string, opts ...CallOption) (*RunDetail, error) {
	return get[RunDetail](ctx, r.c, r.path(run, ""), nil, opts)
}

// RunFilter selects runs. A field with its zero value selects all.
// In a range, from is inclusive and to is exclusive.
type RunFilter struct {
	Job                string // name or id
	States             []RunState
	Reason             string
	Queue              string
	DueFrom, DueTo     time.Time
	EndedFrom, EndedTo time.Time
}

// List iterates over the runs that a filter selects.
func (r Runs) List(ctx context.Context, f RunFilter, opts ...CallOption) iter.Seq2[Run, error] {
	query := params("job", f.Job, "reason", f.Reason, "queue", f.Queue,
		"due_from", instant(f.DueFrom), "due_to", instant(f.DueTo),
		"ended_from", instant(f.EndedFrom), "ended_to", instant(f.EndedTo))
	for _, s := range f.States {
		query.Add("state", string(s))
	}
	return list[Run](ctx, r.c, "/runs", query, opts)
}

// waitPause is how often Wait reads a run.
const waitPause = 500 * time.Millisecond

// Wait reads a run until it has ended or ctx ends.
func (r Runs) Wait(ctx context.Context, run string, opts ...CallOption) (*RunDetail, error) {
	for {
		got, err := r.Get(ctx, run, opts...)
		if err != nil || !got.EndedAt.IsZero() {
			return got, err
		}
		if !pause(ctx, waitPause) {
			return got, context.Cause(ctx)
		}
	}
}

// Cancel cancels a run. If it is in progress, its target is interrupted.
func (r Runs) Cancel(ctx context.Context, run string, opts ...CallOption) (*CancelledRun, error) {
	return post[CancelledRun](ctx, r.c, r.path(run, ":cancel"), nil, opts)
}

// Retry repeats a run that has ended, with the same id.
func (r Runs) Retry(ctx context.Context, run string, opts ...CallOption) (*RunDetail, error) {
	return post[RunDetail](ctx, r.c, r.path(run, ":retry"), nil, withKey(opts))
}

// Complete reports that a run, which its target accepted with 202, has succeeded.
func (r Runs) Complete(ctx context.Context, run string, in SuccessReport, opts ...CallOption) error {
	return r.c.call(ctx, Request{Method: http.MethodPost, Path: r.path(run, ":complete"), Body: in}, nil, opts)
}

// Fail reports that a run, which its target accepted with 202, has failed.
func (r Runs) Fail(ctx context.Context, run string, in FailureReport, opts ...CallOption) error {
	return r.c.call(ctx, Request{Method: http.MethodPost, Path: r.path(run, ":fail"), Body: in}, nil, opts)
}

// Heartbeat reports that the target still works on a run that it accepted with 202.
func (r Runs) Heartbeat(ctx context.Context, run string, opts ...CallOption) (*ReportDeadline, error) {
	return post[ReportDeadline](ctx, r.c, r.path(run, ":heartbeat"), nil, opts)
}
