package belfry

import (
	"context"
	"iter"
	"time"
)

// Runs reads, cancels and repeats runs.
type Runs struct{ api *ClientWithResponses }

// Get reads a run with its attempts.
func (r Runs) Get(ctx context.Context, run string, opts ...CallOption) (*RunDetail, error) {
	got, err := r.api.GetRunWithResponse(ctx, run, opts...)
	if err != nil {
		return nil, err
	}
	return result(got.JSON200, got)
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
	in := ListRunsParams{
		Job: optional(f.Job), Reason: optional(f.Reason), Queue: optional(f.Queue),
		DueFrom: optionalTime(f.DueFrom), DueTo: optionalTime(f.DueTo),
		EndedFrom: optionalTime(f.EndedFrom), EndedTo: optionalTime(f.EndedTo),
	}
	if len(f.States) > 0 {
		in.State = &f.States
	}
	return Pages(func(token string) ([]Run, string, error) {
		in.PageToken = optional(token)
		got, err := r.api.ListRunsWithResponse(ctx, &in, opts...)
		if err != nil {
			return nil, "", err
		}
		page, err := result(got.JSON200, got)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.NextPageToken, nil
	})
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
	got, err := r.api.CancelRunWithResponse(ctx, run, opts...)
	if err != nil {
		return nil, err
	}
	return result(got.JSON200, got)
}

// Retry repeats a run that has ended, with the same id.
func (r Runs) Retry(ctx context.Context, run string, opts ...CallOption) (*RunDetail, error) {
	got, err := r.api.RetryRunWithResponse(ctx, run, nil, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return result(got.JSON202, got)
}

// Complete reports that a run, which its target accepted with 202, has succeeded.
func (r Runs) Complete(ctx context.Context, run string, in SuccessReport, opts ...CallOption) error {
	_, err := r.api.CompleteRunWithResponse(ctx, run, in, opts...)
	return err
}

// Fail reports that a run, which its target accepted with 202, has failed.
func (r Runs) Fail(ctx context.Context, run string, in FailureReport, opts ...CallOption) error {
	_, err := r.api.FailRunWithResponse(ctx, run, in, opts...)
	return err
}

// Heartbeat reports that the target still works on a run that it accepted with 202.
func (r Runs) Heartbeat(ctx context.Context, run string, opts ...CallOption) (*ReportDeadline, error) {
	got, err := r.api.HeartbeatRunWithResponse(ctx, run, opts...)
	if err != nil {
		return nil, err
	}
	return result(got.JSON200, got)
}
