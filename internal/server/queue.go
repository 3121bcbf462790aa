package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Queues is the store, as queues see it.
type Queues interface {
	Queues(ctx context.Context, namespace uuid.UUID, after string, limit int) ([]job.Queue, error)
	Queue(ctx context.Context, namespace uuid.UUID, name string) (job.Queue, error)
	PauseQueue(ctx context.Context, o job.QueueOrder) error
	ResumeQueue(ctx context.Context, o job.QueueOrder) error
}

func (s *Server) registerQueues() {
	huma.Register(s.api, operation("list-queues", http.MethodGet, "/queues", "List the queues by name", job.Viewer), s.listQueues)
	huma.Register(s.api, operation("get-queue", http.MethodGet, "/queues/{queue}", "Get a queue", job.Viewer), s.getQueue)
	pause := operation("pause-queue", http.MethodPost, "/queues/{queue}:pause", "Pause a queue", job.Operator)
	pause.Description = "Within about a second no run of the queue starts any more, by schedule, trigger or retry. What is under way ends as usual. " +
		"Runs wait and are not lost; those of jobs with a deadline may expire meanwhile."
	huma.Register(s.api, pause, s.pauseQueue)
	huma.Register(s.api, operation("resume-queue", http.MethodPost, "/queues/{queue}:resume", "Resume a queue", job.Operator), s.resumeQueue)
}

// Queue is a lane for runs.
type Queue struct {
	Name      string     `json:"name"`
	Paused    bool       `json:"paused" doc:"None of its runs starts."`
	PausedAt  *time.Time `json:"paused_at,omitempty"`
	Note      string     `json:"note,omitempty" doc:"Why it is paused."`
	CreatedAt time.Time  `json:"created_at"`
}

func wireQueue(q job.Queue) Queue {
	return Queue{Name: q.Name, Paused: q.Paused, PausedAt: timeOrNil(q.PausedAt), Note: q.Note, CreatedAt: q.CreatedAt}
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
	o := job.QueueOrder{Namespace: p.Namespace, Name: in.Queue, Actor: p.Actor()}
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
	if err := s.opts.Queues.ResumeQueue(ctx, job.QueueOrder{Namespace: p.Namespace, Name: in.Queue, Actor: p.Actor()}); err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.getQueue(ctx, in)
}
