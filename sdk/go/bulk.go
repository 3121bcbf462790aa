package belfry

import "context"

// Bulk is the result of a request for work on many jobs or runs: the operation that has begun or, with DryRun, what it
// would change.
type Bulk struct {
	Operation *Operation
	Preview   *BulkPreview
}

// bulk returns the one of the two that the server sent.
func bulk(operation *Operation, preview *BulkPreview, r response) (*Bulk, error) {
	if preview != nil {
		return &Bulk{Preview: preview}, nil
	}
	operation, err := result(operation, r)
	if err != nil {
		return nil, err
	}
	return &Bulk{Operation: operation}, nil
}

// PauseAll starts an operation that pauses all jobs of a filter.
func (j Jobs) PauseAll(ctx context.Context, in PauseJobsRequest, opts ...CallOption) (*Bulk, error) {
	r, err := j.api.PauseJobsWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return bulk(r.JSON202, r.JSON200, r)
}

// ResumeAll starts an operation that resumes all jobs of a filter.
func (j Jobs) ResumeAll(ctx context.Context, in JobsRequest, opts ...CallOption) (*Bulk, error) {
	r, err := j.api.ResumeJobsWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return bulk(r.JSON202, r.JSON200, r)
}

// TriggerAll starts an operation that runs all jobs of a filter once.
func (j Jobs) TriggerAll(ctx context.Context, in JobsRequest, opts ...CallOption) (*Bulk, error) {
	r, err := j.api.TriggerJobsWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return bulk(r.JSON202, r.JSON200, r)
}

// DeleteAll starts an operation that deletes all jobs of a filter.
func (j Jobs) DeleteAll(ctx context.Context, in JobsRequest, opts ...CallOption) (*Bulk, error) {
	r, err := j.api.DeleteJobsWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return bulk(r.JSON202, r.JSON200, r)
}

// RelabelAll starts an operation that sets and removes labels of all jobs of a filter.
func (j Jobs) RelabelAll(ctx context.Context, in RelabelJobsRequest, opts ...CallOption) (*Bulk, error) {
	r, err := j.api.RelabelJobsWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return bulk(r.JSON202, r.JSON200, r)
}

// SpreadAll starts an operation that spreads all jobs of a filter over time.
func (j Jobs) SpreadAll(ctx context.Context, in SpreadJobsRequest, opts ...CallOption) (*Bulk, error) {
	r, err := j.api.SpreadJobsWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return bulk(r.JSON202, r.JSON200, r)
}

// CancelAll starts an operation that cancels all live runs of a filter.
func (r Runs) CancelAll(ctx context.Context, in CancelRunsRequest, opts ...CallOption) (*Bulk, error) {
	out, err := r.api.CancelRunsWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return bulk(out.JSON202, out.JSON200, out)
}

// RetryAll starts an operation that runs all ended runs of a filter again.
func (r Runs) RetryAll(ctx context.Context, in RetryRunsRequest, opts ...CallOption) (*Bulk, error) {
	out, err := r.api.RetryRunsWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return bulk(out.JSON202, out.JSON200, out)
}
