package cluster

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

func (h *handlers) registerWorkers() {
	rest.Register(h.api, rest.Operation{
		ID: "list-sessions", Route: "GET /queues/{queue}/sessions", Summary: "List the workers of a queue by name",
		Description: "A session that has expired stays in the list for a minute, unless the worker ended it.",
		Role:        access.Viewer,
	}, h.listWorkers)
}

// WorkerSession is a worker process that claims runs of a queue.
type WorkerSession struct {
	ID          string    `json:"id" doc:"The session's id."`
	Worker      string    `json:"worker" doc:"The name that the worker gave itself."`
	Handlers    []string  `json:"handlers" doc:"Handlers for which it has claimed runs. Empty: it has not claimed yet."`
	Slots       *int      `json:"slots,omitempty" doc:"How many runs it works on at most at the same time, if it says so."`
	Running     int64     `json:"running" doc:"Runs that it has now."`
	RunningMore bool      `json:"running_more" doc:"The queue has more runs than were read: running is a lower bound."`
	StartedAt   time.Time `json:"started_at"`
	HeartbeatAt time.Time `json:"heartbeat_at" doc:"When it was heard last."`
	ExpiresAt   time.Time `json:"expires_at" doc:"When its runs are lost, unless a heartbeat comes."`
	Silent      bool      `json:"silent" doc:"Whether two heartbeats are missing."`
}

func wireWorker(w job.WorkerInfo) WorkerSession {
	return WorkerSession{
		ID: job.FormatSessionID(w.ID), Worker: w.Name, Handlers: append([]string{}, w.Handlers...), Slots: w.Slots,
		Running: w.Running, RunningMore: w.RunningMore, StartedAt: w.StartedAt, HeartbeatAt: w.HeartbeatAt,
		ExpiresAt: w.ExpiresAt, Silent: w.Silent,
	}
}

type listWorkersInput struct {
	QueuePath
	rest.PageInput
}

func (h *handlers) listWorkers(ctx context.Context, in *listWorkersInput) (*rest.PageOutput[WorkerSession], error) {
	return rest.List[job.WorkerMark, job.WorkerInfo, WorkerSession]{
		Read: func(ctx context.Context, namespace uuid.UUID, after job.WorkerMark, limit int) ([]job.WorkerInfo, error) {
			return h.Cluster.WorkerSessions(ctx, namespace, in.Queue, after, limit)
		},
		Mark: func(w job.WorkerInfo) job.WorkerMark { return job.WorkerMark{Name: w.Name, ID: w.ID} },
		Wire: wireWorker,
	}.Page(ctx, &in.PageInput)
}
