package noop

import (
	"context"

	"github.com/belfry-dev/belfry/internal/job"
)

// Target always succeeds. Safe for concurrent use.
type Target struct{}

// New creates the target.
func New() *Target { return &Target{} }

// Deliver succeeds immediately, unless the node is stopping: then it does nothing, like any target.
func (*Target) Deliver(ctx context.Context, _ job.Attempt) job.Outcome {
	if ctx.Err() != nil {
		return job.Outcome{
			Kind: job.Failed, Retryable: true,
			Message: "not delivered: the node is stopping; another one retries",
		}
	}
	return job.Outcome{Kind: job.Succeeded}
}

// Close does nothing: the target has no connections.
func (*Target) Close() {}
