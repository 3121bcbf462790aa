package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Queues is the store, as queues see it.
type Queues interface {
	Queues(ctx context.Context, namespace uuid.UUID, after string, limit int) ([]job.Queue, error)
	Queue(ctx context.Context, namespace uuid.UUID, name string) (job.Queue, error)
	PauseQueue(ctx context.Context, o job.QueueParams) error
	ResumeQueue(ctx context.Context, o job.QueueParams) error
	CreateQueue(ctx context.Context, o job.QueueParams) error
	LimitQueue(ctx context.Context, o job.QueueParams) error
}

func (s *Server) registerQueues() {
	huma.Register(s.api, operation("list-queues", http.MethodGet, "/queues", "List the queues by name", access.Viewer), s.listQueues)
	huma.Register(s.api, operation("get-queue", http.MethodGet, "/queues/{queue}", "Get a queue", access.Viewer), s.getQueue)
	create := operation("create-queue", http.MethodPost, "/queues", "Create a queue", access.Editor)
	create.DefaultStatus = http.StatusCreated
	create.Description = "A job makes its queue by itself; this is for limits that hold from the first run on."
	huma.Register(s.api, create, s.createQueue)
	limit := operation("limit-queue", http.MethodPut, "/queues/{queue}", "Set the limits of a queue", access.Editor)
	limit.Description = "What is left out has no limit from then on. Limits hold for all nodes and workers together, within about a second. Runs beyond them wait, the highest priority first, " +
		"then the oldest. What runs already counts, and is never ended by a limit that is lower."
	huma.Register(s.api, limit, s.limitQueue)
	pause := operation("pause-queue", http.MethodPost, "/queues/{queue}:pause", "Pause a queue", access.Operator)
	pause.Description = "Within about a second no run of the queue starts any more, by schedule, trigger or retry. What is under way ends as usual. " +
		"Runs wait and are not lost; those of jobs with a deadline may expire meanwhile."
	huma.Register(s.api, pause, s.pauseQueue)
	huma.Register(s.api, operation("resume-queue", http.MethodPost, "/queues/{queue}:resume", "Resume a queue", access.Operator), s.resumeQueue)
}

// Queue is a lane for runs.
type Queue struct {
	Name      string     `json:"name"`
	Paused    bool       `json:"paused" doc:"None of its runs starts."`
	PausedAt  *time.Time `json:"paused_at,omitempty"`
	Note      string     `json:"note,omitempty" doc:"Why it is paused."`
	CreatedAt time.Time  `json:"created_at"`
	QueueLimits
	Running *int64 `json:"running,omitempty" doc:"Of a queue with limits: its runs that are live, so running or waiting for their target's report."`
	Waiting *int64 `json:"waiting,omitempty" doc:"Of a queue with limits: its runs that are due and wait for their turn, as nodes said within the last two seconds."`
}

// QueueLimits bound what a queue starts.
type QueueLimits struct {
	MaxRunning int32  `json:"max_running,omitempty" minimum:"0" maximum:"10000" doc:"So many of its runs are live at once, at most. Left out: no limit."`
	Rate       string `json:"rate,omitempty" maxLength:"16" doc:"So many runs start per second (s), minute (m) or hour (h), retries among them. Left out: no limit." example:"100/s"`
	Burst      int32  `json:"burst,omitempty" minimum:"0" maximum:"1000000" doc:"With a rate: so many may start at once after a pause. Default: a tenth of what the rate allows in a second, at least 1."`
}

func (in *QueueLimits) limits() (l job.QueueLimits, err error) {
	l = job.QueueLimits{MaxRunning: in.MaxRunning, Burst: in.Burst}
	if l.Rate, err = job.ParseRate(in.Rate); err != nil {
		return l, err
	}
	return l, l.Validate()
}

func wireQueue(q job.Queue) Queue {
	out := Queue{Name: q.Name, Paused: q.Paused, PausedAt: timeOrNil(q.PausedAt), Note: q.Note, CreatedAt: q.CreatedAt}
	if l := q.Limits; l.Limited() {
		out.QueueLimits = QueueLimits{l.MaxRunning, l.Rate.String(), l.Burst}
		out.Running, out.Waiting = &q.Running, &q.Waiting
	}
	return out
}

type createQueueInput struct {
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"63" doc:"1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit." example:"imports"`
		QueueLimits
	}
}

func (s *Server) createQueue(ctx context.Context, in *createQueueInput) (*queueOutput, error) {
	l, err := in.Body.limits()
	p := principal(ctx)
	if err = errors.Join(job.ValidateQueue(in.Body.Name), err); err == nil {
		err = s.opts.Queues.CreateQueue(ctx, job.QueueParams{Namespace: p.Namespace, Name: in.Body.Name, Limits: l, Actor: p.Actor()})
	}
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.getQueue(ctx, &QueuePath{in.Body.Name})
}

type limitQueueInput struct {
	QueuePath
	Body QueueLimits
}

func (s *Server) limitQueue(ctx context.Context, in *limitQueueInput) (*queueOutput, error) {
	l, err := in.Body.limits()
	p := principal(ctx)
	if err == nil {
		err = s.opts.Queues.LimitQueue(ctx, job.QueueParams{Namespace: p.Namespace, Name: in.Queue, Limits: l, Actor: p.Actor()})
	}
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.getQueue(ctx, &in.QueuePath)
}

type listQueuesOutput struct {
	Body struct {
		Items         []Queue `json:"items"`
		NextPageToken string  `json:"next_page_token,omitempty" doc:"There may be more: send it as page_token. Left out: there is no more."`
	}
}

func (s *Server) listQueues(ctx context.Context, in *LedgerPage) (*listQueuesOutput, error) {
	var after string
	if err := in.after(&after); err != nil {
		return nil, s.problem(ctx, err)
	}
	found, err := s.opts.Queues.Queues(ctx, principal(ctx).Namespace, after, in.PageSize+1)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &listQueuesOutput{}
	out.Body.Items, out.Body.NextPageToken = paged(found, in.PageSize, func(q job.Queue) any { return q.Name }, wireQueue)
	return out, nil
}

// QueuePath names a queue.
type QueuePath struct {
	Queue string `path:"queue" maxLength:"63" doc:"The queue's name." example:"default"`
}

type queueOutput struct {
	Body Queue
}

func (s *Server) getQueue(ctx context.Context, in *QueuePath) (*queueOutput, error) {
	q, err := s.opts.Queues.Queue(ctx, principal(ctx).Namespace, in.Queue)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return &queueOutput{wireQueue(q)}, nil
}

type pauseQueueInput struct {
	QueuePath
	Body *struct {
		Note string `json:"note,omitempty" maxLength:"500" doc:"Why, for those who wonder later."`
	}
}

func (s *Server) pauseQueue(ctx context.Context, in *pauseQueueInput) (*queueOutput, error) {
	p := principal(ctx)
	o := job.QueueParams{Namespace: p.Namespace, Name: in.Queue, Actor: p.Actor()}
	if in.Body != nil {
		o.Note = in.Body.Note
	}
	if err := s.opts.Queues.PauseQueue(ctx, o); err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.getQueue(ctx, &in.QueuePath)
}

func (s *Server) resumeQueue(ctx context.Context, in *QueuePath) (*queueOutput, error) {
	p := principal(ctx)
	if err := s.opts.Queues.ResumeQueue(ctx, job.QueueParams{Namespace: p.Namespace, Name: in.Queue, Actor: p.Actor()}); err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.getQueue(ctx, in)
}
