package worker

import (
	"context"
	"encoding/json"

	"github.com/belfry-dev/belfry/internal/job"
)

// Target represents the workers where jobs are checked. Safe for concurrent use.
type Target struct{}

// New creates the target.
func New() *Target { return &Target{} }

// Check requires the name of a handler.
func (*Target) Check(config json.RawMessage) error { return job.CheckWorkerConfig(config) }

// Deliver is called only if a node claimed a run just before its job was changed to workers. A worker
// gets the run with the next attempt.
func (*Target) Deliver(context.Context, job.Attempt) job.Outcome {
	return job.Outcome{Kind: job.Snoozed, Message: "the job's target is now a worker; a worker gets the run next"}
}

// Close does nothing: the target has no connections.
func (*Target) Close() {}
