package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

const aboutCounts = "With include=counts the response also has the live runs and workers of each queue. " +
	"They are at most a second old, because all readers of a node share one count. " +
	"Of each queue the oldest 100,000 are counted: more is true if there are more."

const aboutSlots = " The counts also have desired_slots, for an autoscaler of the workers."

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
	PlannedMore bool       `json:"planned_1m_more" doc:"There are more of those than were counted."`
	QueueSlots
	Workers int64    `json:"workers" doc:"Workers with a live session."`
	Orphans []string `json:"handlers_without_worker" doc:"Handlers of due runs for which no worker asks: the runs wait."`
	More    bool     `json:"more" doc:"There are more runs than were read: due and running may be higher."`
}

// QueueSlots is how many slots a queue needs.
type QueueSlots struct {
	Desired *int64   `json:"desired_slots,omitempty"`
	Took    *float64 `json:"attempt_seconds,omitempty"`
}

// Descriptions implements rest.Described.
func (QueueSlots) Descriptions() map[string]string {
	return map[string]string{
		"desired_slots": "How many slots its workers need together, so that all of their runs that are running, due, or due " +
			"within a minute are done within the time drain. Never fewer than are running. Only of a single queue. " +
			"Absent if counting took too long.",
		"attempt_seconds": "How long an attempt of the queue takes on average, of the last minutes in which some ended. " +
			"1 if none ended within a day. Only of a single queue.",
	}
}

// DrainInput says how soon the runs of a queue should be done.
type DrainInput struct {
	Drain rest.Duration `query:"drain" doc:"How soon desired_slots are to do the runs: 1s to 1h, default 30s." example:"30s"`
}

func (in *DrainInput) drain() (time.Duration, error) {
	drain, err := in.Drain.Parse("drain", job.DefaultDrain, "30s")
	if err == nil && (drain < time.Second || drain > time.Hour) {
		err = &problem.Problem{Field: "drain", Problem: "it is not between 1s and 1h", Fix: "write for example 30s"}
	}
	return drain, err
}

// addSlots adds how many slots the workers of a queue need, unless that takes too long to find out.
func (h *handlers) addSlots(ctx context.Context, c *QueueCounts, q *job.Queue, drain time.Duration) error {
	load, err := h.loads.Get(ctx, q.ID, func(ctx context.Context) (job.QueueLoad, error) {
		return h.Cluster.QueueLoad(ctx, rest.Principal(ctx).Namespace, q.ID)
	})
	if errors.Is(err, job.ErrSlowList) {
		return nil
	}
	if err != nil {
		return err
	}
	slots, took := job.DesiredSlots(q, &load, drain), load.MeanTook().Seconds()
	c.Desired, c.Took = &slots, &took
	return nil
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
		c := live[q.ID]
		if c == nil {
			c = &job.QueueCounts{}
		}
		out.Counts = &QueueCounts{
			Due: c.Due, OldestDueAt: rest.OptionalTime(c.OldestDueAt), Running: c.Running, Waiting: c.Waiting,
			Planned: c.Planned, PlannedMore: c.PlannedMore, Workers: c.Workers, Orphans: append([]string{}, c.Orphans...),
			More: c.More,
		}
		return out
	}, nil
}
