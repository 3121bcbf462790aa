package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/jobs"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Sets is the part of the store that counts what an operation would change.
type Sets interface {
	CountSet(ctx context.Context, namespace uuid.UUID, k job.OperationKind, s job.OperationSet) (job.SetCount, error)
	PreviewSpread(
		ctx context.Context, namespace uuid.UUID, s job.OperationSet, c job.OperationChange,
	) (job.SpreadPreview, error)
	OperationItems(
		ctx context.Context, namespace, operation uuid.UUID, after int64, limit int,
	) ([]job.OperationItem, error)
}

// bulkBody is the body of a request for an operation on many jobs or runs.
type bulkBody interface {
	options() *BulkOptions
	// set returns what the operation covers, in the words of package job.
	set(ctx context.Context, s *Server) (job.OperationSet, error)
	// change returns what it changes.
	change() job.OperationChange
}

// BulkOptions are the same for all operations on many jobs or runs.
type BulkOptions struct {
	IDs    []string `json:"ids,omitempty" maxItems:"500" doc:"Ids, in place of a filter."`
	All    bool     `json:"all,omitempty" doc:"Required if there is neither a filter nor ids: all of the namespace."`
	Rate   int      `json:"rate,omitempty" minimum:"1" maximum:"1000" doc:"Maximum number per second. Default 50."`
	Note   string   `json:"note,omitempty" maxLength:"500" doc:"The reason, for people."`
	DryRun bool     `json:"dry_run,omitempty" doc:"Only count; change nothing."`
}

func (o *BulkOptions) options() *BulkOptions { return o }

func (o *BulkOptions) change() job.OperationChange { return job.OperationChange{Note: o.Note} }

// choose checks that a request has exactly one of a filter, ids and all.
func (o *BulkOptions) choose(filtered bool) error {
	switch {
	case filtered && len(o.IDs) > 0:
		return problem.New("ids", "there is also a filter", "send one of the two")
	case !filtered && len(o.IDs) == 0 && !o.All:
		return problem.New("all", "there is neither a filter nor ids", `send one of them, or "all": true`)
	default:
		return nil
	}
}

// checkIDs reports ids that cannot be those of a job or a run.
func (o *BulkOptions) checkIDs(parse func(string) error) error {
	for i, id := range o.IDs {
		if parse(id) != nil {
			return problem.New(fmt.Sprintf("ids[%d]", i), problem.Quote(id)+" is not an id", "send complete ids")
		}
	}
	return nil
}

// BulkSample is a job or a run that an operation would change.
type BulkSample struct {
	ID      string     `json:"id" doc:"Id of the job or the run."`
	Name    string     `json:"name,omitempty" doc:"Name of the job."`
	State   string     `json:"state"`
	DueAt   *time.Time `json:"due_at,omitempty" doc:"Due time of the run, or next due time of the job."`
	EndedAt *time.Time `json:"ended_at,omitempty" doc:"When the run ended."`
}

// BulkPreview says what an operation would change.
type BulkPreview struct {
	Count  int64          `json:"count" doc:"Jobs or runs that match now: at most 10,000 jobs or 1,000 runs."`
	More   bool           `json:"more" doc:"There are more than count."`
	Sample []BulkSample   `json:"sample" doc:"Up to five of them."`
	Spread *SpreadPreview `json:"spread,omitempty" doc:"Only of a spread."`
}

// SpreadPreview says when runs start before and after a spread.
type SpreadPreview struct {
	From    time.Time `json:"from" doc:"The first minute."`
	Step    string    `json:"step" enum:"1m"`
	Before  []int64   `json:"before" doc:"Starts of the jobs that change in each minute, for 24 hours. Jitter counts."`
	After   []int64   `json:"after" doc:"The same after the spread."`
	Changed int64     `json:"changed" doc:"Jobs that get a new version."`
	Exact   bool      `json:"exact" doc:"false: there are too many jobs, and only some of them are counted."`
}

// bulkInput is the input of an operation on many jobs or runs.
type bulkInput[B any] struct {
	rest.Idempotency
	Body B
}

// bulkOutput is an operation that has begun, or a preview of it.
type bulkOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the operation."`
	Body     any
}

const aboutBulk = "Returns an operation. Nodes work on it in the background at the given rate, one item after the " +
	"other, and it survives the failure of any node: each item is changed once. " +
	"Nodes change what matches when they reach it; "

// registerBulk adds an operation on many jobs or runs.
func registerBulk[B any, P interface {
	*B
	bulkBody
}](s *Server, kind job.OperationKind, o rest.Operation) {
	o.Status = http.StatusAccepted
	o.Describe = rest.DryRun[Operation, BulkPreview]()
	rest.Register(s.api, o, func(ctx context.Context, in *bulkInput[B]) (*bulkOutput, error) {
		return s.bulk(ctx, kind, o.ID, &in.Idempotency, P(&in.Body))
	})
}

func (s *Server) bulk(
	ctx context.Context, kind job.OperationKind, id string, once *rest.Idempotency, body bulkBody,
) (*bulkOutput, error) {
	set, err := body.set(ctx, s)
	if err != nil {
		return nil, err
	}
	o, p := body.options(), rest.Principal(ctx)
	params := job.OperationParams{
		Namespace: p.Namespace, Kind: kind, Set: set, Change: body.change(), Rate: cmp.Or(o.Rate, defaultRate), Actor: p.Actor(),
	}
	if err := params.Validate(); err != nil {
		return nil, err
	}
	if o.DryRun {
		return s.previewBulk(ctx, &params)
	}
	begun, err := rest.Once(once, id, body, begunOperation, func(r *job.IdempotentRequest) (job.Operation, error) {
		params.Idempotent = r
		return s.opts.Operations.BeginOperation(ctx, params)
	})
	if err != nil {
		return nil, err
	}
	return &bulkOutput{http.StatusAccepted, begun.Location, begun.Body}, nil
}

func (s *Server) previewBulk(ctx context.Context, p *job.OperationParams) (*bulkOutput, error) {
	var out BulkPreview
	var found job.SetCount
	var err error
	if p.Kind == job.SpreadJobs {
		var spread job.SpreadPreview
		spread, err = s.opts.Operations.PreviewSpread(ctx, p.Namespace, p.Set, p.Change)
		found = spread.SetCount
		out.Spread = &SpreadPreview{
			From: spread.From, Step: "1m", Before: spread.Before, After: spread.After, Changed: spread.Changed,
			Exact: spread.All,
		}
	} else {
		found, err = s.opts.Operations.CountSet(ctx, p.Namespace, p.Kind, p.Set)
	}
	if err != nil {
		return nil, err
	}
	out.Count, out.More = found.Count, found.More
	out.Sample = append(rest.Map(found.Jobs, sampleJob), rest.Map(found.Runs, sampleRun)...)
	return &bulkOutput{Status: http.StatusOK, Body: out}, nil
}

func sampleJob(j job.Job) BulkSample {
	return BulkSample{
		ID: job.FormatJobID(j.ID), Name: j.Name, State: jobs.StateName(j.State), DueAt: rest.OptionalTime(j.NextDue),
	}
}

func sampleRun(e job.Entry) BulkSample {
	return BulkSample{
		ID: job.FormatRunID(e.Key), Name: e.JobName, State: string(e.Status), DueAt: &e.DueAt,
		EndedAt: rest.OptionalTime(e.EndedAt),
	}
}

// wireSet returns what an operation on jobs or runs covers.
func wireSet(o *job.Operation) map[string]string {
	set, out := &o.Set, map[string]string{}
	put := func(field, value string) {
		if value != "" {
			out[field] = value
		}
	}
	at := func(field string, t time.Time) {
		if !t.IsZero() {
			out[field] = t.Format(time.RFC3339Nano)
		}
	}
	switch {
	case set.Jobs != nil:
		f := set.Jobs
		put("name", f.Name)
		put("queue", f.Queue)
		put("target", f.Target)
		if f.State != 0 {
			put("state", jobs.StateName(f.State))
		}
		put("label", strings.Join(rest.Map(f.Labels, func(l job.Label) string { return l.Key + "=" + l.Value }), ","))
	case set.Runs != nil:
		f := set.Runs
		if f.Job != uuid.Nil {
			put("job", job.FormatJobID(f.Job))
		}
		put("state", strings.Join(rest.Map(f.States, func(s job.RunStatus) string { return string(s) }), ","))
		put("reason", string(f.Reason))
		put("queue", f.Queue)
		at("due_from", f.DueFrom)
		at("due_to", f.DueBefore)
		at("ended_from", f.EndedFrom)
		at("ended_to", f.EndedBefore)
	case set.Undo != uuid.Nil:
		put("operation", job.FormatOperationID(set.Undo))
	default:
		put("ids", strings.Join(set.IDs, ","))
	}
	if !o.Change.DueTo.IsZero() { // of a spread
		at("due_from", o.Change.DueFrom)
		at("due_to", o.Change.DueTo)
	}
	return out
}

// OperationFailure is a job or a run that an operation could not change.
type OperationFailure struct {
	Job   string    `json:"job,omitempty" doc:"The id of the job."`
	Run   string    `json:"run,omitempty" doc:"The id of the run."`
	Name  string    `json:"name,omitempty" doc:"Name of the job."`
	Error string    `json:"error" doc:"Why it could not be changed."`
	At    time.Time `json:"at"`
}

func wireOperationItem(i job.OperationItem) OperationFailure {
	out := OperationFailure{Name: i.Name, Error: i.Error, At: i.At.UTC()}
	if _, err := job.ParseRunID(i.Object); err == nil {
		out.Run = i.Object
	} else {
		out.Job = i.Object
	}
	return out
}

type listOperationItemsInput struct {
	OperationPath
	Result string `query:"result" enum:"failed" default:"failed" doc:"Which items. Only failed ones are noted."`
	rest.PageInput
}

func (s *Server) listOperationItems(
	ctx context.Context, in *listOperationItemsInput,
) (*rest.PageOutput[OperationFailure], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	if _, err := s.opts.Operations.Operation(ctx, rest.Principal(ctx).Namespace, id); err != nil {
		return nil, err
	}
	return rest.List[int64, job.OperationItem, OperationFailure]{
		Read: func(ctx context.Context, namespace uuid.UUID, after int64, limit int) ([]job.OperationItem, error) {
			return s.opts.Operations.OperationItems(ctx, namespace, id, after, limit)
		},
		Mark: func(i job.OperationItem) int64 { return i.Number }, Wire: wireOperationItem,
	}.Page(ctx, &in.PageInput)
}
