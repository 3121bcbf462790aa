package cluster

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Queues is the part of the store that has the queues.
type Queues interface {
	Queues(ctx context.Context, namespace uuid.UUID, after string, limit int) ([]job.Queue, error)
	Queue(ctx context.Context, namespace uuid.UUID, name string) (job.Queue, error)
	PauseQueue(ctx context.Context, o job.QueueParams) error
	ResumeQueue(ctx context.Context, o job.QueueParams) error
	CreateQueue(ctx context.Context, o job.QueueParams) error
	LimitQueue(ctx context.Context, o job.QueueParams) error
}

func (h *handlers) registerQueues() {
	rest.Register(h.api, rest.Operation{
		ID: "list-queues", Route: "GET /queues", Summary: "List the queues by name",
		Description: aboutCounts, Role: access.Viewer,
	}, h.listQueues)
	rest.Register(h.api, rest.Operation{
		ID: "get-queue", Route: "GET /queues/{queue}", Summary: "Get a queue",
		Description: aboutCounts + aboutSlots, Role: access.Viewer,
	}, h.getQueue)
	rest.Register(h.api, rest.Operation{
		ID: "create-queue", Route: "POST /queues", Summary: "Create a queue",
		Description: "Jobs create their queues themselves. Use this to set limits before the first run.",
		Role:        access.Editor, Status: http.StatusCreated,
	}, h.createQueue)
	rest.Register(h.api, rest.Operation{
		ID: "replace-queue-limits", Route: "PUT /queues/{queue}", Summary: "Set the limits of a queue",
		Description: "A limit that is absent is removed. Limits apply to all nodes and workers together, " +
			"within about a second. Runs over a limit wait, the highest priority first, then the oldest. " +
			"Live runs count; a lower limit never ends them.",
		Role: access.Editor,
	}, h.limitQueue)
	rest.Register(h.api, rest.Operation{
		ID: "pause-queue", Route: "POST /queues/{queue}:pause", Summary: "Pause a queue",
		Description: "Within about a second, no run of the queue starts any more, whether by schedule, trigger " +
			"or retry. Attempts in progress end as usual. Runs wait and are not lost, but may expire if their job " +
			"has a deadline.",
		Role: access.Operator, Example: `{"note":"the database moves"}`,
	}, h.pauseQueue)
	rest.Register(h.api, rest.Operation{
		ID: "resume-queue", Route: "POST /queues/{queue}:resume", Summary: "Resume a queue", Role: access.Operator,
	}, h.resumeQueue)
}

// Queue is a queue, with its limits and what uses them.
type Queue struct {
	Name      string     `json:"name"`
	Paused    bool       `json:"paused" doc:"While true, none of its runs starts."`
	PausedAt  *time.Time `json:"paused_at,omitempty"`
	Note      string     `json:"note,omitempty" doc:"Why it is paused."`
	CreatedAt time.Time  `json:"created_at"`
	QueueLimits
	Running *int64 `json:"running,omitempty" doc:"With limits: runs that run or wait for their target's report."`
	Waiting *int64 `json:"waiting,omitempty" doc:"With limits: due runs that wait for a permit, at most 2 s old."`

	Counts *QueueCounts `json:"counts,omitempty" doc:"With include=counts: the live runs and workers of the queue."`
}

// QueueLimits limit the runs of a queue.
type QueueLimits struct {
	MaxRunning int32  `json:"max_running,omitempty" minimum:"0" maximum:"10000"`
	Rate       string `json:"rate,omitempty" maxLength:"16" example:"100/s"`
	Burst      int32  `json:"burst,omitempty" minimum:"0" maximum:"1000000"`
}

// Descriptions implements rest.Described.
func (QueueLimits) Descriptions() map[string]string {
	return map[string]string{
		"max_running": "Maximum number of runs that are live at the same time. Absent: no limit.",
		"rate": "Maximum number of starts per second (s), minute (m) or hour (h), retries included. " +
			"Absent: no limit.",
		"burst": "With rate: how many runs may start at once after a quiet period. " +
			"Default: a tenth of one second's rate, at least 1.",
	}
}

func (in *QueueLimits) limits() (l job.QueueLimits, err error) {
	l = job.QueueLimits{MaxRunning: in.MaxRunning, Burst: in.Burst}
	if l.Rate, err = job.ParseRate(in.Rate); err != nil {
		return l, err
	}
	return l, l.Validate()
}

func wireQueue(q job.Queue) Queue {
	out := Queue{
		Name: q.Name, Paused: q.Paused, PausedAt: rest.OptionalTime(q.PausedAt), Note: q.Note, CreatedAt: q.CreatedAt,
	}
	if l := q.Limits; l.Limited() {
		out.QueueLimits = QueueLimits{l.MaxRunning, l.Rate.String(), l.Burst}
		out.Running, out.Waiting = &q.Running, &q.Waiting
	}
	return out
}

// QueuePath names a queue.
type QueuePath struct {
	Queue string `path:"queue" maxLength:"63" doc:"The queue's name." example:"default"`
}

type queueOutput struct {
	Body Queue
}

type listQueuesInput struct {
	rest.PageInput
	IncludeCounts
}

func (h *handlers) listQueues(ctx context.Context, in *listQueuesInput) (*rest.PageOutput[Queue], error) {
	wire, err := h.wireQueues(ctx, in.Include)
	if err != nil {
		return nil, err
	}
	return rest.List[string, job.Queue, Queue]{
		Read: h.Queues.Queues, Mark: func(q job.Queue) string { return q.Name }, Wire: wire,
	}.Page(ctx, &in.PageInput)
}

type getQueueInput struct {
	QueuePath
	IncludeCounts
	DrainInput
}

func (h *handlers) getQueue(ctx context.Context, in *getQueueInput) (*queueOutput, error) {
	drain, err := in.drain()
	if err != nil {
		return nil, err
	}
	wire, err := h.wireQueues(ctx, in.Include)
	if err != nil {
		return nil, err
	}
	q, err := h.Queues.Queue(ctx, rest.Principal(ctx).Namespace, in.Queue)
	if err != nil {
		return nil, err
	}
	out := wire(q)
	if out.Counts != nil {
		err = h.addSlots(ctx, out.Counts, &q, drain)
	}
	return &queueOutput{out}, err
}

// changeQueue carries out a change and returns the queue as it is then.
func (h *handlers) changeQueue(
	ctx context.Context, params job.QueueParams, change func(context.Context, job.QueueParams) error,
) (*queueOutput, error) {
	p := rest.Principal(ctx)
	params.Namespace, params.Actor = p.Namespace, p.Actor()
	if err := change(ctx, params); err != nil {
		return nil, err
	}
	return h.getQueue(ctx, &getQueueInput{QueuePath: QueuePath{params.Name}})
}

// QueueRequest describes a new queue.
type QueueRequest struct {
	Name string `json:"name" minLength:"1" maxLength:"63" doc:"a-z, 0-9, . _ and -, starting with a letter or digit." example:"imports"`
	QueueLimits
}

type createQueueInput struct {
	Body QueueRequest
}

type createQueueOutput struct {
	Location string `header:"Location" doc:"Path of the queue."`
	Body     Queue
}

func (h *handlers) createQueue(ctx context.Context, in *createQueueInput) (*createQueueOutput, error) {
	l, err := in.Body.limits()
	if err = errors.Join(job.ValidateQueue(in.Body.Name), err); err != nil {
		return nil, err
	}
	q, err := h.changeQueue(ctx, job.QueueParams{Name: in.Body.Name, Limits: l}, h.Queues.CreateQueue)
	if err != nil {
		return nil, err
	}
	return &createQueueOutput{rest.Path("queues", q.Body.Name), q.Body}, nil
}

type limitQueueInput struct {
	QueuePath
	Body QueueLimits
}

func (h *handlers) limitQueue(ctx context.Context, in *limitQueueInput) (*queueOutput, error) {
	l, err := in.Body.limits()
	if err != nil {
		return nil, err
	}
	return h.changeQueue(ctx, job.QueueParams{Name: in.Queue, Limits: l}, h.Queues.LimitQueue)
}

// PauseQueueRequest says why a queue is paused.
type PauseQueueRequest struct {
	Note string `json:"note,omitempty" maxLength:"500" doc:"The reason, for people."`
}

type pauseQueueInput struct {
	QueuePath
	Body *PauseQueueRequest
}

func (h *handlers) pauseQueue(ctx context.Context, in *pauseQueueInput) (*queueOutput, error) {
	params := job.QueueParams{Name: in.Queue}
	if in.Body != nil {
		params.Note = in.Body.Note
	}
	return h.changeQueue(ctx, params, h.Queues.PauseQueue)
}

func (h *handlers) resumeQueue(ctx context.Context, in *QueuePath) (*queueOutput, error) {
	return h.changeQueue(ctx, job.QueueParams{Name: in.Queue}, h.Queues.ResumeQueue)
}
