package server

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

func (s *Server) registerBulkRuns() {
	registerBulk[CancelRunsRequest](s, job.CancelRuns, rest.Operation{
		ID: "cancel-runs", Route: "POST /runs:cancel", Summary: "Cancel the live runs that match a filter",
		Description: aboutBulk + "runs that are due after the operation was created are not, unless due_to says so.",
		Role:        access.Operator, Example: `{"filter":{"job":"nightly-report","state":["due"]},"dry_run":true}`,
	})
	registerBulk[RetryRunsRequest](s, job.RetryRuns, rest.Operation{
		ID: "retry-runs", Route: "POST /runs:retry", Summary: "Run the ended runs that match a filter again",
		Description: aboutBulk + "runs that end after the operation was created are not, so none runs again twice. " +
			"The filter says in which states they ended. With ids, runs that ended again since, or were retried and " +
			"succeeded, are failed items.",
		Role: access.Operator, Example: `{"filter":{"state":["failed"],"ended_from":"2026-05-01T00:00:00Z"},"dry_run":true}`,
	})
}

// RunsFilter says which runs an operation covers.
type RunsFilter struct {
	Job       string     `json:"job,omitempty" maxLength:"600" doc:"Id or name of the job."`
	State     []RunState `json:"state,omitempty" maxItems:"5" doc:"States of the runs."`
	Reason    string     `json:"reason,omitempty" maxLength:"300" doc:"Reason of the end, or several with commas." example:"overlap"`
	Queue     string     `json:"queue,omitempty" maxLength:"63" doc:"Name of the queue."`
	DueFrom   time.Time  `json:"due_from,omitzero" required:"false" doc:"Due at this time or later."`
	DueTo     time.Time  `json:"due_to,omitzero" required:"false" doc:"Due before this time."`
	EndedFrom time.Time  `json:"ended_from,omitzero" required:"false" doc:"Ended at this time or later."`
	EndedTo   time.Time  `json:"ended_to,omitzero" required:"false" doc:"Ended before this time."`
}

// CancelRunsRequest says which live runs to cancel.
type CancelRunsRequest struct {
	Filter *RunsFilter `json:"filter,omitempty" doc:"Which runs. All fields must match."`
	BulkOptions
}

// RetryRunsRequest says which ended runs to run again.
type RetryRunsRequest struct {
	CancelRunsRequest
	Attempts []int16 `json:"attempts,omitempty" maxItems:"500"`
}

// Descriptions implements rest.Described.
func (RetryRunsRequest) Descriptions() map[string]string {
	return map[string]string{
		"attempts": "The last attempt of each run of ids, in their order. A run that has run again since is a failed item. " +
			"Absent: only runs that end after the operation was created are.",
	}
}

func (r *CancelRunsRequest) set(ctx context.Context, s *Server) (set job.OperationSet, err error) {
	f := job.RunFilter{}
	if in := r.Filter; in != nil {
		f = job.RunFilter{
			Reason: job.Reason(in.Reason), Queue: in.Queue, DueFrom: in.DueFrom, DueBefore: in.DueTo,
			EndedFrom: in.EndedFrom, EndedBefore: in.EndedTo,
			States: rest.Map(in.State, func(s RunState) job.RunStatus { return job.RunStatus(s) }),
		}
		if in.Job != "" {
			if f.Job, err = s.jobs.ID(ctx, in.Job); err != nil {
				return set, err
			}
		}
	}
	if err := r.choose(r.Filter != nil); err != nil {
		return set, err
	}
	if len(r.IDs) == 0 {
		return job.OperationSet{Runs: &f}, nil
	}
	return job.OperationSet{IDs: r.IDs}, r.checkIDs(func(id string) error {
		_, err := job.ParseRunID(id)
		return err
	})
}

func (r *RetryRunsRequest) set(ctx context.Context, s *Server) (job.OperationSet, error) {
	set, err := r.CancelRunsRequest.set(ctx, s)
	if n := len(r.Attempts); err == nil && n > 0 && n != len(r.IDs) {
		err = problem.New("attempts", "there are not as many as ids", "send one for each id, in the same order, or none")
	}
	set.Attempts = r.Attempts
	if err == nil && set.Runs != nil && len(set.Runs.States) == 0 {
		err = problem.New("filter.state", "it is missing", "say how the runs ended, for example failed")
	}
	return set, err
}
