package worker

import (
	"context"
	"encoding/json"

	"github.com/belfry-dev/belfry/internal/job"
)

// Target stands for the workers, where jobs are checked. Safe for concurrent use.
type Target struct{}

// New makes the target.
func New() *Target { return &Target{} }

// Check wants the name of a handler.
func (*Target) Check(config json.RawMessage) error { return job.CheckWorkerConfig(config) }

// Deliver is for a run that was claimed while its job was given to workers: they
// get it with the next attempt.
func (*Target) Deliver(context.Context, job.Attempt) job.Outcome {
	return job.Outcome{Kind: job.Snoozed, Message: "the job was given to workers meanwhile; one of them gets it next"}
}

// Close does nothing: there is nothing to let go of.
func (*Target) Close() {}
