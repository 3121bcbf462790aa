package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Ledger is the store, as runs see it.
type Ledger interface {
	Runs(ctx context.Context, q job.RunQuery) (job.RunPage, error)
	Run(ctx context.Context, namespace uuid.UUID, k job.Key) ([]job.Entry, error)
	CancelRun(ctx context.Context, o job.RunParams) (attempt int16, err error)
	RetryRun(ctx context.Context, o job.RunParams) error
	Outputs(ctx context.Context, namespace uuid.UUID, k job.Key) ([]job.Output, error)
}

func (s *Server) registerRuns() {
	huma.Register(s.api, operation("list-runs", http.MethodGet, "/runs", "List runs, the newest first", access.Viewer), s.listRuns)
	huma.Register(s.api, operation("list-job-runs", http.MethodGet, "/jobs/{job}/runs", "List the runs of a job, the newest first", access.Viewer), s.listJobRuns)
	huma.Register(s.api, operation("get-run", http.MethodGet, "/runs/{run}", "Get a run with all its attempts", access.Viewer), s.getRun)
	cancel := operation("cancel-run", http.MethodPost, "/runs/{run}:cancel", "Cancel a live run", access.Operator)
	cancel.Description = "A run that has not started ends as cancelled. One that has ends as cancelled too, and what its attempt reports is ignored. " +
		"The attempt itself is interrupted if the node that answers is the one that runs it; else it goes on until its timeout. " +
		"Either way its target may have received the call, and may finish what it began."
	huma.Register(s.api, cancel, s.cancelRun)
	retry := operation("retry-run", http.MethodPost, "/runs/{run}:retry", "Run an ended run again", access.Operator)
	retry.Description = "The run is live again under its old id, so its target gets the same idempotency key as before, and may leave out what it has done already. " +
		"The job's definition of today holds, with all its attempts. A dead letter of the run is gone. " +
		"Who has a list of runs to try again sends the attempt of each: one that has run again since is then refused with 409."
	retry.DefaultStatus = http.StatusAccepted
	huma.Register(s.api, retry, s.retryRun)
	output := operation("get-run-output", http.MethodGet, "/runs/{run}/output", "Get what a run's command has written", access.Viewer)
	output.Description = "The end of what an attempt wrote to stdout and stderr: of one under way within seconds, on whichever node it is. " +
		"To follow it, ask again with after set to total of the last answer, and with wait."
	huma.Register(s.api, output, s.getRunOutput)
}

// RunFilter says which runs to list.
type RunFilter struct {
	State       []string  `query:"state,explode" maxItems:"8" enum:"pending,due,running,waiting,succeeded,failed,cancelled,skipped" doc:"Those in one of these states: repeat it, or write them with commas. Without a job: either live ones (the first four), which come in no order of time, or ended ones. Default: all of a job; without a job those that have ended."`
	Reason      string    `query:"reason" maxLength:"40" doc:"Those that ended for this reason." example:"overlap"`
	Queue       string    `query:"queue" maxLength:"63" doc:"Those of this queue."`
	DueFrom     time.Time `query:"due_from" doc:"Those due at this time or later."`
	DueBefore   time.Time `query:"due_before" doc:"Those due before this time."`
	EndedFrom   time.Time `query:"ended_from" doc:"Those that ended at this time or later."`
	EndedBefore time.Time `query:"ended_before" doc:"Those that ended before this time."`
}

type listRunsInput struct {
	Job string `query:"job" maxLength:"600" doc:"Those of this job: its id or its name. They come by due time, live and ended ones; without a job runs come by the time of their end."`
	RunFilter
	LedgerPage
}

type listRunsOutput struct {
	Body struct {
		Items         []Run  `json:"items" doc:"A run that was retried or redriven is here once for each time it ended."`
		NextPageToken string `json:"next_page_token,omitempty" doc:"There may be more: send it as page_token. Left out: there is no more."`
	}
}

func (s *Server) listRuns(ctx context.Context, in *listRunsInput) (*listRunsOutput, error) {
	var id uuid.UUID
	if in.Job != "" {
		var err error
		if id, err = s.idOf(ctx, in.Job); err != nil {
			return nil, s.problem(ctx, err)
		}
	}
	return s.runsOf(ctx, id, &in.RunFilter, &in.LedgerPage)
}

type listJobRunsInput struct {
	JobPath
	RunFilter
	LedgerPage
}

func (s *Server) listJobRuns(ctx context.Context, in *listJobRunsInput) (*listRunsOutput, error) {
	id, err := s.idOf(ctx, in.Job)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.runsOf(ctx, id, &in.RunFilter, &in.LedgerPage)
}

func (s *Server) runsOf(ctx context.Context, id uuid.UUID, f *RunFilter, page *LedgerPage) (*listRunsOutput, error) {
	q := job.RunQuery{
		Namespace: principal(ctx).Namespace, Job: id, Reason: job.Reason(f.Reason), Queue: f.Queue, Limit: page.PageSize,
		DueFrom: f.DueFrom, DueBefore: f.DueBefore, EndedFrom: f.EndedFrom, EndedBefore: f.EndedBefore,
	}
	live := 0
	for _, state := range f.State {
		q.States = append(q.States, job.RunStatus(state))
		if job.RunStatus(state).Live() {
			live++
		}
	}
	if id == uuid.Nil && live > 0 && live < len(f.State) {
		return nil, s.problem(ctx, &job.Problem{Field: "state", Problem: "live and ended runs of all jobs cannot be listed at once", Fix: "name a job, or ask for pending, due, running and waiting apart from the others"})
	}
	if err := page.after(&q.After); err != nil {
		return nil, s.problem(ctx, err)
	}
	found, err := s.opts.Ledger.Runs(ctx, q)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &listRunsOutput{}
	out.Body.Items = make([]Run, len(found.Entries))
	for i, e := range found.Entries {
		out.Body.Items[i] = wireRun(e)
	}
	if found.Next != nil {
		out.Body.NextPageToken = tokenOf(found.Next)
	}
	return out, nil
}

// RunPath names a run.
type RunPath struct {
	Run string `path:"run" maxLength:"60" doc:"The run's id." example:"run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000"`
}

// key is what the path names: the id is the key itself.
func (p *RunPath) key() (job.Key, error) {
	k, err := job.ParseRunID(p.Run)
	if err != nil {
		return k, newProblem("not_found", "that is not the id of a run; is it complete?")
	}
	return k, nil
}

// order is what a request asks of the run that the path names.
func (p *RunPath) order(ctx context.Context) (job.RunParams, error) {
	k, err := p.key()
	who := principal(ctx)
	return job.RunParams{Namespace: who.Namespace, Key: k, Actor: who.Actor()}, err
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
	entries, err := s.opts.Ledger.Run(ctx, principal(ctx).Namespace, k)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	outputs, err := s.opts.Ledger.Outputs(ctx, principal(ctx).Namespace, k)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return &runOutput{wireStory(entries, outputs)}, nil
}

type cancelRunOutput struct {
	Body struct {
		RunDetail
		UnderWay    int16 `json:"under_way,omitempty" doc:"The number of an attempt that was under way. Its target may still finish what it began; what it reports is ignored."`
		Interrupted bool  `json:"interrupted" doc:"That attempt was ended at once, as this node ran it. Another node ends it within about two seconds."`
	}
}

func (s *Server) cancelRun(ctx context.Context, in *RunPath) (*cancelRunOutput, error) {
	o, err := in.order(ctx)
	if err != nil {
		return nil, err
	}
	attempt, err := s.opts.Ledger.CancelRun(ctx, o)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &cancelRunOutput{}
	out.Body.UnderWay = attempt
	if attempt > 0 && s.opts.Interrupt != nil {
		out.Body.Interrupted = s.opts.Interrupt(o.Key, attempt)
	}
	r, err := s.runResult(ctx, o.Key)
	if err != nil {
		return nil, err
	}
	out.Body.RunDetail = r.Body
	return out, nil
}

// RedriveInput names a run that is to be live again.
type RedriveInput struct {
	RunPath
	Idempotency
}

type retryRunInput struct {
	RedriveInput
	Attempt OptionalAttempt `query:"attempt" minimum:"0" maximum:"32767" doc:"Only if the run last ended with this attempt, as a list of runs tells it. Left out: however often it has ended." example:"3"`
}

func (s *Server) retryRun(ctx context.Context, in *retryRunInput) (*runOutput, error) {
	if !in.Attempt.set {
		return s.again(ctx, "retry-run", &in.RedriveInput, s.opts.Ledger.RetryRun)
	}
	return s.again(ctx, fmt.Sprintf("retry-run after %d", in.Attempt.Number), &in.RedriveInput, func(ctx context.Context, o job.RunParams) error {
		o.Attempt = &in.Attempt.Number
		return s.opts.Ledger.RetryRun(ctx, o)
	})
}

// OptionalAttempt is the number of an attempt in a query, where 0 is another thing
// than none: a run may end without one.
type OptionalAttempt struct {
	Number int16
	set    bool
}

// Schema is that of the number.
func (OptionalAttempt) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[int16]())
}

// Receiver is where the number goes.
func (a *OptionalAttempt) Receiver() reflect.Value { return reflect.ValueOf(a).Elem().Field(0) }

// OnParamSet notes whether there is one.
func (a *OptionalAttempt) OnParamSet(set bool, _ any) { a.set = set }

// again makes a run live again, once for an Idempotency-Key. A repetition is
// answered with the run as it is by then.
func (s *Server) again(ctx context.Context, operation string, in *RedriveInput, change func(context.Context, job.RunParams) error) (*runOutput, error) {
	o, err := in.order(ctx)
	if err != nil {
		return nil, err
	}
	if o.Idempotent, err = in.once(operation, in.Run, func(any) any { return struct{}{} }); err != nil {
		return nil, s.problem(ctx, err)
	}
	if err := change(ctx, o); err != nil && !errors.Is(err, job.ErrAlreadyDone) {
		return nil, s.refused(ctx, err, nil)
	}
	return s.runResult(ctx, o.Key)
}
