package cluster

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

const aboutCounts = "With include=counts the response also has the live runs and workers of each queue. " +
	"They are at most a second old, because all readers of a node share one count. " +
	"It reads up to 100,000 live runs of the cluster: more is true if there are more, and every number is then a lower bound."

// IncludeCounts asks for the counts of queues.
type IncludeCounts struct {
	Include string `query:"include" enum:"counts" doc:"counts: with the live runs and workers of the queue."`
}

// QueueCounts counts the live runs and the workers of a queue.
type QueueCounts struct {
	Due         int64      `json:"due" doc:"Runs that may start and have not."`
	OldestDueAt *time.Time `json:"oldest_due_at,omitempty" doc:"Since when the oldest of them may start."`
	Running     int64      `json:"running" doc:"Runs that run or wait for their target's report."`
	Waiting     int64      `json:"waiting" doc:"Due runs that wait for a permit."`
	Planned     int64      `json:"planned_1m" doc:"Runs that may start within the next minute."`
	Workers     int64      `json:"workers" doc:"Workers with a live session."`
	Orphans     []string   `json:"handlers_without_worker" doc:"Handlers of due runs for which no worker asks: the runs wait."`
	More        bool       `json:"more" doc:"There are more live runs than were read: every number is a lower bound."`
}

// wireQueues returns the function that converts queues, with the counts of each if they are wanted.
func (h *handlers) wireQueues(ctx context.Context, include string) (func(job.Queue) Queue, error) {
	if include == "" {
		return wireQueue, nil
	}
	live, err := h.live.Get(ctx, struct{}{}, h.Cluster.CountLive)
	if err != nil {
		return nil, err
	}
	return func(q job.Queue) Queue {
		out := wireQueue(q)
		c := live.Queues[q.ID]
		if c == nil {
			c = &job.QueueCounts{}
		}
		out.Counts = &QueueCounts{
			Due: c.Due, OldestDueAt: rest.OptionalTime(c.OldestDueAt), Running: c.Running, Waiting: c.Waiting,
			Planned: c.Planned, Workers: c.Workers, Orphans: append([]string{}, c.Orphans...), More: live.More,
		}
		return out
	}, nil
}
