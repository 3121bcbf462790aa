package belfry

import "context"

// Bulk is the result of a request for work on many jobs or runs: the operation that has begun or, with DryRun, what it
// would change.
type Bulk struct {
	Operation *Operation
	Preview   *BulkPreview
}

// bulk asks for work on many jobs or runs.
func (c *Client) bulk(ctx context.Context, path string, in any, dryRun bool, opts []CallOption) (*Bulk, error) {
	if dryRun {
		preview, err := post[BulkPreview](ctx, c, path, in, withKey(opts))
		if err != nil {
			return nil, err
		}
		return &Bulk{Preview: preview}, nil
	}
	operation, err := post[Operation](ctx, c, path, in, withKey(opts))
	if err != nil {
		return nil, err
	}
	return &Bulk{Operation: operation}, nil
}

// PauseAll starts an operation that pauses all jobs of a filter.
func (j Jobs) PauseAll(ctx context.Context, in PauseJobsRequest, opts ...CallOption) (*Bulk, error) {
	return j.c.bulk(ctx, "/jobs:pause", in, in.DryRun, opts)
}

// ResumeAll starts an operation that resumes all jobs of a filter.
func (j Jobs) ResumeAll(ctx context.Context, in JobsRequest, opts ...CallOption) (*Bulk, error) {
	return j.c.bulk(ctx, "/jobs:resume", in, in.DryRun, opts)
}

// TriggerAll starts an operation that runs all jobs of a filter once.
func (j Jobs) TriggerAll(ctx context.Context, in JobsRequest, opts ...CallOption) (*Bulk, error) {
	return j.c.bulk(ctx, "/jobs:trigger", in, in.DryRun, opts)
}

// DeleteAll starts an operation that deletes all jobs of a filter.
func (j Jobs) DeleteAll(ctx context.Context, in JobsRequest, opts ...CallOption) (*Bulk, error) {
	return j.c.bulk(ctx, "/jobs:delete", in, in.DryRun, opts)
}

// RelabelAll starts an operation that sets and removes labels of all jobs of a filter.
func (j Jobs) RelabelAll(ctx context.Context, in RelabelJobsRequest, opts ...CallOption) (*Bulk, error) {
	return j.c.bulk(ctx, "/jobs:relabel", in, in.DryRun, opts)
}

// SpreadAll starts an operation that spreads all jobs of a filter over time.
func (j Jobs) SpreadAll(ctx context.Context, in SpreadJobsRequest, opts ...CallOption) (*Bulk, error) {
	return j.c.bulk(ctx, "/jobs:spread", in, in.DryRun, opts)
}

// CancelAll starts an operation that cancels all live runs of a filter.
func (r Runs) CancelAll(ctx context.Context, in CancelRunsRequest, opts ...CallOption) (*Bulk, error) {
	return r.c.bulk(ctx, "/runs:cancel", in, in.DryRun, opts)
}

// RetryAll starts an operation that runs all ended runs of a filter again.
func (r Runs) RetryAll(ctx context.Context, in RetryRunsRequest, opts ...CallOption) (*Bulk, error) {
	return r.c.bulk(ctx, "/runs:retry", in, in.DryRun, opts)
}
