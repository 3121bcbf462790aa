package noop

import (
	"context"

	"github.com/belfry-dev/belfry/internal/job"
)

// Target succeeds. Safe for concurrent use.
type Target struct{}

// New makes the target.
func New() *Target { return &Target{} }

// Deliver succeeds at once, unless the node is stopping: then nothing happens,
// as with any target.
func (*Target) Deliver(ctx context.Context, _ job.Attempt) job.Outcome {
	if ctx.Err() != nil {
		return job.Outcome{Kind: job.Failed, Retryable: true, Message: "not delivered: the node is stopping; another one tries again"}
	}
	return job.Outcome{Kind: job.Succeeded}
}

// Close does nothing: there is nothing to let go of.
func (*Target) Close() {}
