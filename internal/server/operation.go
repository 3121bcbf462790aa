package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Operations is the part of the store that has the operations on many dead letters, jobs and runs.
type Operations interface {
	Sets
	BeginOperation(ctx context.Context, o job.OperationParams) (job.Operation, error)
	ListOperations(ctx context.Context, namespace, before uuid.UUID, limit int) ([]job.Operation, error)
	Operation(ctx context.Context, namespace, id uuid.UUID) (job.Operation, error)
	AbortOperation(ctx context.Context, namespace, id uuid.UUID, actor string) error
}

func (s *Server) registerOperations() {
	s.registerBegin(job.Redrive, `{"queue":"default","rate":20}`)
	s.registerBegin(job.Discard, `{"reason":"attempts","failed_to":"2026-05-01T00:00:00Z"}`)
	rest.Register(s.api, rest.Operation{
		ID: "list-operations", Route: "GET /operations", Summary: "List operations, the newest first",
		Role: access.Viewer,
	}, s.listOperations)
	rest.Register(s.api, rest.Operation{
		ID: "get-operation", Route: "GET /operations/{operation}", Summary: "Get an operation with its progress",
		Role: access.Viewer,
	}, s.getOperation)
	rest.Register(s.api, rest.Operation{
		ID: "list-operation-items", Route: "GET /operations/{operation}/items",
		Summary: "List the items that an operation could not change", Role: access.Viewer,
		Description: "Operations on jobs and runs note the first 1,000 of them. The order is that of the work.",
	}, s.listOperationItems)
	rest.Register(s.api, rest.Operation{
		ID: "undo-operation", Route: "POST /operations/{operation}:undo", Summary: "Undo an operation that changed definitions",
		Description: "Begins an operation that restores the versions of the jobs from before a relabel, a spread or an " +
			"undo. Jobs that were changed or deleted since are left alone and become failed items.",
		Role: access.Editor, Status: http.StatusAccepted, Example: `{"note":"the wrong jobs","dry_run":true}`,
		Describe: rest.DryRun[Operation, BulkPreview](),
	}, s.undoOperation)
	rest.Register(s.api, rest.Operation{
		ID: "abort-operation", Route: "POST /operations/{operation}:abort", Summary: "Abort an operation",
		Description: "Completed work stays done.", Role: access.Operator,
	}, s.abortOperation)
}

// registerBegin adds the operation that begins operations of a kind.
func (s *Server) registerBegin(kind job.OperationKind, example string) {
	rest.Register(s.api, rest.Operation{
		ID: string(kind) + "-dead-letters", Route: "POST /dead-letters:" + string(kind),
		Summary: "Begin to " + string(kind) + " the dead letters that match a filter",
		Description: "Returns an operation. Nodes work on it in the background at the given rate, and it survives " +
			"the failure of any node. Runs that fail again after it began are left alone. With dry_run it only counts.",
		Role: access.Operator, Status: http.StatusAccepted, Example: example, Describe: rest.DryRun[Operation, DeadLetterCount](),
	}, func(ctx context.Context, in *beginOperationInput) (*begunOrCountedOutput, error) {
		return s.beginOperation(ctx, kind, in)
	})
}

// Operation is work on many dead letters, jobs or runs, which nodes do in the background.
type Operation struct {
	ID        string            `json:"id" example:"op_06f8m2tq5dtk1e7n9q0c3s5v7g"`
	Kind      string            `json:"kind" enum:"redrive,discard,pause,resume,trigger,delete,relabel,spread,undo,cancel,retry"`
	State     string            `json:"state" enum:"running,finished,aborted,failed"`
	Filter    map[string]string `json:"filter" doc:"Which dead letters, jobs or runs it covers."`
	Note      string            `json:"note,omitempty" doc:"The reason, for people."`
	Rate      int               `json:"rate" doc:"Maximum number per second."`
	Count     int64             `json:"count" doc:"Number of items when it began."`
	More      bool              `json:"more,omitempty" doc:"There were more than count."`
	Done      int64             `json:"done"`
	Failed    int64             `json:"failed"`
	Problem   string            `json:"problem,omitempty"`
	Progress  float64           `json:"progress" minimum:"0" maximum:"1" doc:"Fraction that is done or failed."`
	CreatedBy string            `json:"created_by"`
	CreatedAt time.Time         `json:"created_at"`
	EndedAt   *time.Time        `json:"ended_at,omitempty"`
}

// Descriptions implements rest.Described.
func (Operation) Descriptions() map[string]string {
	return map[string]string{
		"state": "failed: the nodes gave up, see problem. Completed work stays done.",
		"kind": "redrive and discard change dead letters. cancel and retry change runs. The others change jobs; undo " +
			"takes back another operation.",
		"failed": "Number of items that could not be changed: see the operation's items. Dead letters whose job is " +
			"deleted, or whose run is live, are still dead letters.",
		"problem": "Why the last try failed. Nodes retry with growing delays and give up after ten failures in a row.",
	}
}

func wireOperation(o job.Operation) Operation {
	out := Operation{
		ID: job.FormatOperationID(o.ID), Kind: string(o.Kind), State: string(o.State), Filter: wireWhich(&o),
		Note: o.Change.Note, Rate: o.Rate, Count: o.Count, More: o.More, Done: o.Done, Failed: o.Failed,
		Problem: o.Problem, Progress: 1,
		CreatedBy: o.Actor, CreatedAt: o.CreatedAt, EndedAt: rest.OptionalTime(o.EndedAt),
	}
	if o.State != job.OperationFinished && o.Count > 0 {
		out.Progress = min(1, float64(o.Done+o.Failed)/float64(o.Count))
	}
	return out
}

// wireWhich returns what an operation covers.
func wireWhich(o *job.Operation) map[string]string {
	if o.Kind.OfDeadLetters() {
		return wireFilter(o.Filter)
	}
	return wireSet(o)
}

// wireFilter returns the fields of a filter that are set.
func wireFilter(f job.DeadFilter) map[string]string {
	out := map[string]string{}
	if f.Job != uuid.Nil {
		out["job"] = job.FormatJobID(f.Job)
	}
	for field, value := range map[string]string{"queue": f.Queue, "reason": string(f.Reason), "cause": f.Cause} {
		if value != "" {
			out[field] = value
		}
	}
	for field, at := range map[string]time.Time{"failed_from": f.FailedFrom, "failed_to": f.FailedBefore} {
		if !at.IsZero() {
			out[field] = at.Format(time.RFC3339Nano)
		}
	}
	return out
}

// OperationRequest says which dead letters an operation covers.
type OperationRequest struct {
	Job        string    `json:"job,omitempty" maxLength:"600" doc:"Id or name of the job."`
	Queue      string    `json:"queue,omitempty" maxLength:"63" doc:"Name of the queue."`
	Reason     string    `json:"reason,omitempty" maxLength:"40" doc:"Reason of the failure."`
	Cause      string    `json:"cause,omitempty" maxLength:"64" doc:"Cause of the failure, as in the summary."`
	FailedFrom time.Time `json:"failed_from,omitzero" required:"false" doc:"Failed at this time or later."`
	FailedTo   time.Time `json:"failed_to,omitzero" required:"false" doc:"Failed before this time."`
	All        bool      `json:"all,omitempty" doc:"Required if there is no filter: all of the namespace."`
	Rate       int       `json:"rate,omitempty" minimum:"1" maximum:"1000" doc:"Maximum number per second. Default 50."`
	DryRun     bool      `json:"dry_run,omitempty" doc:"Only count; change nothing."`
}

type beginOperationInput struct {
	rest.Idempotency
	Body OperationRequest
}

type operationOutput struct {
	Body Operation
}

type begunOperationOutput struct {
	Location string
	Body     Operation
}

// begunOrCountedOutput is a begunOperationOutput, or the result of a dry run.
type begunOrCountedOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the operation."`
	Body     any    // an Operation, or a DeadLetterCount
}

func begunOperation(o job.Operation) *begunOperationOutput {
	out := wireOperation(o)
	return &begunOperationOutput{rest.Path("operations", out.ID), out}
}

// defaultRate is gentle: 100,000 dead letters take half an hour.
const defaultRate = 50

func (s *Server) beginOperation(
	ctx context.Context, kind job.OperationKind, in *beginOperationInput,
) (*begunOrCountedOutput, error) {
	b := &in.Body
	f, err := s.deadFilter(ctx, DeadFilter{
		Job: b.Job, Queue: b.Queue, Reason: b.Reason, Cause: b.Cause, FailedFrom: b.FailedFrom, FailedTo: b.FailedTo,
	})
	if err != nil {
		return nil, err
	}
	if f == (job.DeadFilter{}) && !b.All {
		return nil, &problem.Problem{
			Field: "all", Problem: "there is no filter",
			Fix: `name a job, a queue, a reason, a cause or a time, or send "all": true`,
		}
	}
	if b.DryRun { // it changes nothing, so nothing is stored for its Idempotency-Key
		return s.countDeadLetters(ctx, f)
	}
	b.Rate = cmp.Or(b.Rate, defaultRate)
	begin := func(once *job.IdempotentRequest) (job.Operation, error) {
		p := rest.Principal(ctx)
		return s.opts.Operations.BeginOperation(ctx, job.OperationParams{
			Namespace: p.Namespace, Kind: kind, Filter: f, Rate: b.Rate, Actor: p.Actor(), Idempotent: once,
		})
	}
	out, err := rest.Once(&in.Idempotency, string(kind)+"-dead-letters", b, begunOperation, begin)
	if err != nil {
		return nil, err
	}
	return &begunOrCountedOutput{http.StatusAccepted, out.Location, out.Body}, nil
}

func (s *Server) listOperations(ctx context.Context, in *rest.PageInput) (*rest.PageOutput[Operation], error) {
	return rest.List[uuid.UUID, job.Operation, Operation]{
		First: uuid.Max, Read: s.opts.Operations.ListOperations,
		Mark: func(o job.Operation) uuid.UUID { return o.ID }, Wire: wireOperation,
	}.Page(ctx, in)
}

// OperationPath names an operation.
type OperationPath struct {
	Operation string `path:"operation" maxLength:"40" doc:"The operation's id."`
}

func (p *OperationPath) id() (uuid.UUID, error) {
	id, err := job.ParseOperationID(p.Operation)
	if err != nil {
		return id, rest.NewProblem("not_found", "that is not the id of an operation; is it complete?")
	}
	return id, nil
}

func (s *Server) getOperation(ctx context.Context, in *OperationPath) (*operationOutput, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	o, err := s.opts.Operations.Operation(ctx, rest.Principal(ctx).Namespace, id)
	if err != nil {
		return nil, err
	}
	return &operationOutput{wireOperation(o)}, nil
}

func (s *Server) abortOperation(ctx context.Context, in *OperationPath) (*operationOutput, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	p := rest.Principal(ctx)
	if err := s.opts.Operations.AbortOperation(ctx, p.Namespace, id, p.Actor()); err != nil {
		return nil, err
	}
	return s.getOperation(ctx, in)
}

// UndoRequest says how to undo an operation.
type UndoRequest struct {
	Rate   int    `json:"rate,omitempty" minimum:"1" maximum:"1000" doc:"Maximum number per second. Default 50."`
	Note   string `json:"note,omitempty" maxLength:"500" doc:"The reason, for people."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only count; change nothing."`
}

type undoOperationInput struct {
	OperationPath
	rest.Idempotency
	Body UndoRequest
}

func (s *Server) undoOperation(ctx context.Context, in *undoOperationInput) (*bulkOutput, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	return s.bulk(ctx, job.UndoJobs, "undo-operation", &in.Idempotency, &undoBody{
		BulkOptions{Rate: in.Body.Rate, Note: in.Body.Note, DryRun: in.Body.DryRun}, id,
	})
}

// undoBody is the request for an undo as a bulkBody.
type undoBody struct {
	BulkOptions
	Operation uuid.UUID
}

func (b *undoBody) set(ctx context.Context, s *Server) (job.OperationSet, error) {
	o, err := s.opts.Operations.Operation(ctx, rest.Principal(ctx).Namespace, b.Operation)
	if err == nil {
		err = o.CheckUndo()
	}
	return job.OperationSet{Undo: b.Operation}, err
}
