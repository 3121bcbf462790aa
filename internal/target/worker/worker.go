package worker

import (
	"context"
	"encoding/json"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// Target represents the workers where jobs are checked. Safe for concurrent use.
type Target struct{}

// New creates the target.
func New() *Target { return &Target{} }

// Check requires the name of a handler, and nothing else.
func (*Target) Check(config json.RawMessage) error {
	const fix = `name the handler: {"handler": "send-invoice"}`
	var c map[string]json.RawMessage
	if len(config) == 0 || json.Unmarshal(config, &c) != nil {
		return &problem.Problem{Field: "target.config", Problem: "it is not a JSON object", Fix: fix}
	}
	for name := range c {
		if name != "handler" {
			return &problem.Problem{
				Field: "target.config." + name, Problem: "worker has no such setting",
				Fix: "remove it; handler is the only setting",
			}
		}
	}
	const field = "target.config.handler"
	var name string
	if json.Unmarshal(c["handler"], &name) != nil {
		return &problem.Problem{Field: field, Problem: "it is missing or not a string", Fix: fix}
	}
	if !job.ValidHandler(name) {
		return &problem.Problem{
			Field: field, Problem: problem.Quote(name) + " is not the name of a handler",
			Fix: "use 1 to 100 letters, digits, '.', '_', ':', '/' and '-', beginning with a letter or digit",
		}
	}
	return nil
}

// Uses returns nothing: the target has no secrets.
func (*Target) Uses(json.RawMessage) secret.Uses { return secret.Uses{} }

// Deliver is called only if a node claimed a run just before its job was changed to workers. A worker
// gets the run with the next attempt.
func (*Target) Deliver(context.Context, job.Attempt) job.Outcome {
	return job.Outcome{Kind: job.Snoozed, Message: "the job's target is now a worker; a worker gets the run next"}
}

// Close does nothing: the target has no connections.
func (*Target) Close() {}
