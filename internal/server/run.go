package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/jobs"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/trace"
)

// Ledger is the part of the store that has the runs, live and ended.
type Ledger interface {
	Runs(ctx context.Context, q job.RunQuery) (job.RunPage, error)
	Run(ctx context.Context, namespace uuid.UUID, k job.Key) ([]job.Entry, error)
	RunPayload(ctx context.Context, namespace uuid.UUID, e job.Entry) (json.RawMessage, error)
	CancelRun(ctx context.Context, o job.RunParams) (attempt int16, err error)
	RetryRun(ctx context.Context, o job.RunParams) error
	Outputs(ctx context.Context, namespace uuid.UUID, k job.Key) ([]job.Output, error)
}

func (s *Server) registerRuns() {
	rest.Register(s.api, rest.Operation{
		ID: "list-runs", Route: "GET /runs", Summary: "List runs, the newest first", Role: access.Viewer,
		Description: "With job: live and ended runs of the job, ordered by due time. " +
			"Without job: ended runs, ordered by the time of their end. Live runs of all jobs need a state " +
			"(pending, retrying, due, running, accepted) and come by the time at which they may start, the oldest first; " +
			"without a job, live and ended states cannot be combined.",
	}, s.listRuns)
	rest.Register(s.api, rest.Operation{
		ID: "list-job-runs", Route: "GET /jobs/{job}/runs", Summary: "List the runs of a job, the newest first",
		Description: "Live and ended runs, ordered by due time.", Role: access.Viewer,
	}, s.listJobRuns)
	rest.Register(s.api, rest.Operation{
		ID: "get-run", Route: "GET /runs/{run}", Summary: "Get a run with all its attempts", Role: access.Viewer,
	}, s.getRun)
	rest.Register(s.api, rest.Operation{
		ID: "cancel-run", Route: "POST /runs/{run}:cancel", Summary: "Cancel a live run",
		Description: "The run ends as cancelled, whether it has started or not, and reports of its attempt are " +
			"ignored. The attempt is interrupted at once if the node that answers runs it, or else by its own node " +
			"within about two seconds. Its target may have received the call, and may still finish the work.",
		Role: access.Operator,
	}, s.cancelRun)
	rest.Register(s.api, rest.Operation{
		ID: "retry-run", Route: "POST /runs/{run}:retry", Summary: "Run an ended run again",
		Description: "The run is live again under its old id, so its target gets the same idempotency key as before " +
			"and can skip work that it has already done. The current definition of the job applies, with all its " +
			"attempts. A dead letter of the run is removed. To retry runs from a list, send the attempt of each: " +
			"a run that has run again since is then rejected with 409.",
		Role: access.Operator, Status: http.StatusAccepted,
	}, s.retryRun)
	rest.Register(s.api, rest.Operation{
		ID: "trigger-job", Route: "POST /jobs/{job}:trigger", Summary: "Run a job now",
		Description: "Returns the run, which is due now. The job may be paused or finished. " +
			"The run waits while another run of the job is in progress, and for older due runs, but not for a run " +
			"whose next attempt is still to come. With overlap allow it starts immediately, and with replace it " +
			"replaces the run in progress. While a job has 5,000 runs that have not ended " +
			"(20,000 with overlap allow), or its namespace has about 1,000,000, it gets no more: the answer is 409.",
		Role: access.Operator, Status: http.StatusAccepted, Example: `{"payload":{"report":"sales"}}`,
	}, s.triggerJob)
	rest.Register(s.api, rest.Operation{
		ID: "get-run-output", Route: "GET /runs/{run}/output", Summary: "Get the output of a run's command",
		Description: "The end of what an attempt wrote to stdout and stderr. Output of an attempt in progress " +
			"appears within seconds, whichever node runs it. " +
			"To follow it, repeat the request with wait, and with after set to total of the last response.",
		Role: access.Viewer,
	}, s.getRunOutput)
}

// RunFilter says which runs a list has.
type RunFilter struct {
	State []RunState `query:"state,explode" maxItems:"9" doc:"One or more states. Repeat it, or use commas."`

	Reason    string    `query:"reason" maxLength:"300" doc:"Reason of the end, or several with commas." example:"overlap"`
	Queue     string    `query:"queue" maxLength:"63" doc:"Name of the queue."`
	DueFrom   time.Time `query:"due_from" doc:"Due at this time or later."`
	DueTo     time.Time `query:"due_to" doc:"Due before this time."`
	EndedFrom time.Time `query:"ended_from" doc:"Ended at this time or later."`
	EndedTo   time.Time `query:"ended_to" doc:"Ended before this time."`
}

type listRunsInput struct {
	Job string `query:"job" maxLength:"600" doc:"Id or name of the job."`
	RunFilter
	rest.PageInput
}

func (s *Server) listRuns(ctx context.Context, in *listRunsInput) (*rest.PageOutput[Run], error) {
	var id uuid.UUID
	if in.Job != "" {
		var err error
		if id, err = s.jobs.ID(ctx, in.Job); err != nil {
			return nil, err
		}
	}
	return s.runsOf(ctx, id, &in.RunFilter, &in.PageInput)
}

type listJobRunsInput struct {
	jobs.JobPath
	RunFilter
	rest.PageInput
}

func (s *Server) listJobRuns(ctx context.Context, in *listJobRunsInput) (*rest.PageOutput[Run], error) {
	id, err := s.jobs.ID(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	return s.runsOf(ctx, id, &in.RunFilter, &in.PageInput)
}

// runsOf lists the runs of a job, or of all jobs if the id is zero.
func (s *Server) runsOf(
	ctx context.Context, jobID uuid.UUID, f *RunFilter, page *rest.PageInput,
) (*rest.PageOutput[Run], error) {
	q := job.RunQuery{
		Namespace: rest.Principal(ctx).Namespace, Job: jobID, Reason: job.Reason(f.Reason), Queue: f.Queue,
		DueFrom: f.DueFrom, DueBefore: f.DueTo, EndedFrom: f.EndedFrom, EndedBefore: f.EndedTo,
		Limit: page.PageSize,
	}
	live := 0
	for _, state := range f.State {
		q.States = append(q.States, job.RunStatus(state))
		if job.RunStatus(state).Live() {
			live++
		}
	}
	if jobID == uuid.Nil && live > 0 && live < len(f.State) {
		return nil, &problem.Problem{
			Field: "state", Problem: "live and ended runs of all jobs cannot be listed at once",
			Fix: "name a job, or ask for pending, retrying, due, running and accepted apart from the others",
		}
	}
	if err := page.After(ctx, &q.After); err != nil {
		return nil, err
	}
	found, err := s.opts.Ledger.Runs(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &rest.PageOutput[Run]{}
	out.Body.Items = rest.Map(found.Entries, wireRun)
	if found.Next != nil {
		out.Body.NextPageToken = rest.Token(ctx, found.Next)
	}
	return out, nil
}

// RunPath names a run.
type RunPath struct {
	Run string `path:"run" maxLength:"60" doc:"The run's id." example:"run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000"`
}

// key returns the key of the run that the path names. The id of a run is its key.
func (p *RunPath) key() (job.Key, error) {
	k, err := job.ParseRunID(p.Run)
	if err != nil {
		return k, rest.NewProblem("not_found", "that is not the id of a run; is it complete?")
	}
	return k, nil
}

// params returns the change of the run that the path names.
func (p *RunPath) params(ctx context.Context) (job.RunParams, error) {
	k, err := p.key()
	principal := rest.Principal(ctx)
	return job.RunParams{Namespace: principal.Namespace, Key: k, Actor: principal.Actor()}, err
}

type runOutput struct {
	Body RunDetail
}

func (s *Server) getRun(ctx context.Context, in *RunPath) (*runOutput, error) {
	k, err := in.key()
	if err != nil {
		return nil, err
	}
	return s.runResult(ctx, k)
}

func (s *Server) runResult(ctx context.Context, k job.Key) (*runOutput, error) {
	namespace := rest.Principal(ctx).Namespace
	entries, err := s.opts.Ledger.Run(ctx, namespace, k)
	if err != nil {
		return nil, err
	}
	outputs, err := s.opts.Ledger.Outputs(ctx, namespace, k)
	if err != nil {
		return nil, err
	}
	out := &runOutput{wireDetail(entries, outputs)}
	out.Body.TraceID, out.Body.TraceURL = s.traceOf(&entries[0])
	payload, err := s.opts.Ledger.RunPayload(ctx, namespace, entries[0])
	out.Body.Payload = rest.JSON(payload)
	return out, err
}

// traceOf returns the trace of a run, and where to look at it.
func (s *Server) traceOf(e *job.Entry) (id, url string) {
	if !e.DueTo.IsZero() {
		return "", "" // a range of occurrences that did not run
	}
	id = trace.Of(e.Key, e.Trace).String()
	return id, strings.ReplaceAll(s.opts.TraceURL, "{trace_id}", id)
}

// CancelledRun is a run that was cancelled.
type CancelledRun struct {
	RunDetail
	RunningAttempt int16 `json:"running_attempt,omitempty" doc:"The attempt in progress. Its target may still finish; reports are ignored."`
	Interrupted    bool  `json:"interrupted" doc:"Whether this node ended it. Others do so in about two seconds."`
}

type cancelRunOutput struct {
	Body CancelledRun
}

// startedRunOutput is the response of operations that create a run or make one live again.
type startedRunOutput struct {
	Location string `header:"Location" doc:"Path of the run."`
	Body     RunDetail
}

func (s *Server) startedRun(ctx context.Context, k job.Key) (*startedRunOutput, error) {
	r, err := s.runResult(ctx, k)
	if err != nil {
		return nil, err
	}
	return &startedRunOutput{rest.Path("runs", r.Body.ID), r.Body}, nil
}

func (s *Server) triggerJob(ctx context.Context, in *jobs.TriggerInput) (*startedRunOutput, error) {
	k, err := s.jobs.Trigger(ctx, in)
	if err != nil {
		return nil, err
	}
	return s.startedRun(ctx, k)
}

func (s *Server) cancelRun(ctx context.Context, in *RunPath) (*cancelRunOutput, error) {
	params, err := in.params(ctx)
	if err != nil {
		return nil, err
	}
	attempt, err := s.opts.Ledger.CancelRun(ctx, params)
	if err != nil {
		return nil, err
	}
	out := &cancelRunOutput{}
	out.Body.RunningAttempt = attempt
	if attempt > 0 && s.opts.Interrupt != nil {
		out.Body.Interrupted = s.opts.Interrupt(params.Key, attempt)
	}
	r, err := s.runResult(ctx, params.Key)
	if err != nil {
		return nil, err
	}
	out.Body.RunDetail = r.Body
	return out, nil
}

// RedriveInput names a run that is to be live again.
type RedriveInput struct {
	RunPath
	rest.Idempotency
}

type retryRunInput struct {
	RedriveInput
	// A run may end without an attempt, so 0 differs from none.
	Attempt rest.OptionalParam[int16] `query:"attempt" minimum:"0" maximum:"32767" doc:"Only if this attempt was the last one." example:"3"`
}

func (s *Server) retryRun(ctx context.Context, in *retryRunInput) (*startedRunOutput, error) {
	if !in.Attempt.Set {
		return s.rerun(ctx, "retry-run", &in.RedriveInput, s.opts.Ledger.RetryRun)
	}
	operation := fmt.Sprintf("retry-run after %d", in.Attempt.Value)
	return s.rerun(ctx, operation, &in.RedriveInput, func(ctx context.Context, params job.RunParams) error {
		params.Attempt = &in.Attempt.Value
		return s.opts.Ledger.RetryRun(ctx, params)
	})
}

// rerun makes a run live again, once for an Idempotency-Key. The response to a repetition is the run as
// it is by then.
func (s *Server) rerun(
	ctx context.Context, operation string, in *RedriveInput, change func(context.Context, job.RunParams) error,
) (*startedRunOutput, error) {
	params, err := in.params(ctx)
	if err != nil {
		return nil, err
	}
	params.Idempotent, err = in.Request(operation, in.Run, func(any) any { return struct{}{} })
	if err != nil {
		return nil, err
	}
	if err := change(ctx, params); err != nil && !errors.Is(err, job.ErrAlreadyDone) {
		return nil, err
	}
	return s.startedRun(ctx, params.Key)
}
