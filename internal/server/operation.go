package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Operations is the store, as operations see it.
type Operations interface {
	BeginOperation(ctx context.Context, o job.OperationParams) (job.Operation, error)
	Operations(ctx context.Context, namespace, before uuid.UUID, limit int) ([]job.Operation, error)
	Operation(ctx context.Context, namespace, id uuid.UUID) (job.Operation, error)
	AbortOperation(ctx context.Context, namespace, id uuid.UUID, actor string) error
}

func (s *Server) registerOperations() {
	for _, kind := range []job.OperationKind{job.Redrive, job.Discard} {
		o := deadOperation(string(kind)+"-dead-letters", http.MethodPost, "/dead-letters:"+string(kind), "Begin to "+string(kind)+" the dead letters that a filter means", access.Operator)
		o.Description = "The answer is an operation: nodes work on it, a few at a time and at the rate given, and it survives any of them. " +
			"What fails again after it began is left alone."
		o.DefaultStatus = http.StatusAccepted
		huma.Register(s.api, o, func(ctx context.Context, in *beginOperationInput) (*operationOutput, error) {
			return s.beginOperation(ctx, kind, in)
		})
	}
	huma.Register(s.api, operation("list-operations", http.MethodGet, "/operations", "List operations, the newest first", access.Viewer), s.listOperations)
	huma.Register(s.api, operation("get-operation", http.MethodGet, "/operations/{operation}", "Get an operation with its progress", access.Viewer), s.getOperation)
	abort := operation("abort-operation", http.MethodPost, "/operations/{operation}:abort", "Abort an operation", access.Operator)
	abort.Description = "What it has done stays done."
	huma.Register(s.api, abort, s.abortOperation)
}

// Operation is work on many dead letters.
type Operation struct {
	ID        string            `json:"id" example:"op_06f8m2tq5dtk1e7n9q0c3s5v7g"`
	Kind      string            `json:"kind" enum:"redrive,discard"`
	State     string            `json:"state" enum:"running,finished,aborted,failed" doc:"failed: the nodes could not work on it: see problem. What it has done stays done."`
	Filter    map[string]string `json:"filter" doc:"Which dead letters are meant."`
	Rate      int               `json:"rate" doc:"At most so many per second."`
	Count     int64             `json:"count" doc:"How many there were when it began."`
	Done      int64             `json:"done"`
	Failed    int64             `json:"failed" doc:"Could not be redriven: their job is deleted, or the run is live. They are still dead letters."`
	Problem   string            `json:"problem,omitempty" doc:"Why the nodes could not work on it the last time. They try again, ever more rarely, and give up after the tenth time in a row."`
	Progress  float64           `json:"progress" minimum:"0" maximum:"1" doc:"The part that is done or failed."`
	Actor     string            `json:"actor"`
	CreatedAt time.Time         `json:"created_at"`
	EndedAt   *time.Time        `json:"ended_at,omitempty"`
}

func wireOperation(o job.Operation) Operation {
	out := Operation{
		ID: job.FormatOperationID(o.ID), Kind: string(o.Kind), State: string(o.State), Filter: map[string]string{}, Rate: o.Rate,
		Count: o.Count, Done: o.Done, Failed: o.Failed, Problem: o.Problem, Actor: o.Actor, CreatedAt: o.CreatedAt, EndedAt: timeOrNil(o.EndedAt), Progress: 1,
	}
	if o.State != job.OperationFinished && o.Count > 0 {
		out.Progress = min(1, float64(o.Done+o.Failed)/float64(o.Count))
	}
	if o.Filter.Job != uuid.Nil {
		out.Filter["job"] = job.FormatJobID(o.Filter.Job)
	}
	for field, value := range map[string]string{"queue": o.Filter.Queue, "reason": string(o.Filter.Reason)} {
		if value != "" {
			out.Filter[field] = value
		}
	}
	for field, at := range map[string]time.Time{"failed_from": o.Filter.FailedFrom, "failed_before": o.Filter.FailedBefore} {
		if !at.IsZero() {
			out.Filter[field] = at.Format(time.RFC3339Nano)
		}
	}
	return out
}

type beginOperationInput struct {
	Idempotency
	Body struct {
		Job          string    `json:"job,omitempty" maxLength:"600" doc:"Those of this job: its id or its name."`
		Queue        string    `json:"queue,omitempty" maxLength:"63" doc:"Those of this queue."`
		Reason       string    `json:"reason,omitempty" maxLength:"40" doc:"Those that failed for this reason."`
		FailedFrom   time.Time `json:"failed_from,omitzero" required:"false" doc:"Those that failed at this time or later."`
		FailedBefore time.Time `json:"failed_before,omitzero" required:"false" doc:"Those that failed before this time."`
		All          bool      `json:"all,omitempty" doc:"Without any filter: yes, all of the namespace."`
		Rate         int       `json:"rate,omitempty" minimum:"0" maximum:"1000" doc:"At most so many per second: what the targets can take. Default 50."`
	}
}

type operationOutput struct {
	Body Operation
}

// defaultRate is gentle: 100,000 dead letters take half an hour.
const defaultRate = 50

func (s *Server) beginOperation(ctx context.Context, kind job.OperationKind, in *beginOperationInput) (*operationOutput, error) {
	b := &in.Body
	f, err := s.filter(ctx, DeadFilter{Job: b.Job, Queue: b.Queue, Reason: b.Reason, FailedFrom: b.FailedFrom, FailedBefore: b.FailedBefore})
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	if f == (job.DeadFilter{}) && !b.All {
		return nil, s.problem(ctx, &job.Problem{Field: "all", Problem: "there is no filter", Fix: `name a job, a queue, a reason or a time, or send "all": true`})
	}
	if b.Rate == 0 {
		b.Rate = defaultRate
	}
	p := principal(ctx)
	begun := func(o any) any { return &operationOutput{wireOperation(o.(job.Operation))} }
	once, err := in.once(string(kind)+"-dead-letters", b, begun)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	o, err := s.opts.Operations.BeginOperation(ctx, job.OperationParams{Namespace: p.Namespace, Kind: kind, Filter: f, Rate: b.Rate, Actor: p.Actor(), Idempotent: once})
	if err != nil {
		out, err := recalled[operationOutput](once, err)
		if err != nil {
			return nil, s.refused(ctx, err, nil)
		}
		return out, nil
	}
	return &operationOutput{wireOperation(o)}, nil
}

type listOperationsOutput struct {
	Body struct {
		Items         []Operation `json:"items"`
		NextPageToken string      `json:"next_page_token,omitempty" doc:"There may be more: send it as page_token. Left out: there is no more."`
	}
}

func (s *Server) listOperations(ctx context.Context, in *LedgerPage) (*listOperationsOutput, error) {
	before := uuid.Max
	if err := in.after(&before); err != nil {
		return nil, s.problem(ctx, err)
	}
	found, err := s.opts.Operations.Operations(ctx, principal(ctx).Namespace, before, in.PageSize+1)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &listOperationsOutput{}
	out.Body.Items, out.Body.NextPageToken = paged(found, in.PageSize, func(o job.Operation) any { return o.ID }, wireOperation)
	return out, nil
}

// OperationPath names an operation.
type OperationPath struct {
	Operation string `path:"operation" maxLength:"40" doc:"The operation's id."`
}

func (p *OperationPath) id() (uuid.UUID, error) {
	id, err := job.ParseOperationID(p.Operation)
	if err != nil {
		return id, newProblem("not_found", "that is not the id of an operation; is it complete?")
	}
	return id, nil
}

func (s *Server) getOperation(ctx context.Context, in *OperationPath) (*operationOutput, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	o, err := s.opts.Operations.Operation(ctx, principal(ctx).Namespace, id)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return &operationOutput{wireOperation(o)}, nil
}

func (s *Server) abortOperation(ctx context.Context, in *OperationPath) (*operationOutput, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	p := principal(ctx)
	if err := s.opts.Operations.AbortOperation(ctx, p.Namespace, id, p.Actor()); err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.getOperation(ctx, in)
}
