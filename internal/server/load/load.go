// Package load has the operation on the load: how many runs are due at each minute of the hours ahead.
package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/jobs"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/server/shared"
)

// Store is the part of the store that has the load.
type Store interface {
	Load(ctx context.Context, p job.LoadParams) (job.Load, error)
	Queue(ctx context.Context, namespace uuid.UUID, name string) (job.Queue, error)
}

// Register adds the operation to the API.
func Register(api *rest.API, store Store) {
	h := &handlers{store: store}
	h.loads.Age, h.loads.Max = maxAge, maxLoads
	rest.Register(api, rest.Operation{
		ID: "get-load", Route: "GET /load", Summary: "Count the runs that are due in each minute ahead",
		Description: "Counts the occurrences of all active jobs, by due time. Jitter, retries, triggers and limits " +
			"do not move them. Jobs that are paused now are not counted.\n\n" +
			"The work depends on the number of different schedules, not on the number of jobs. In a namespace with very " +
			"many jobs, it reads a fair sample of them: exact is then false and the counts are estimates. " +
			"A response is at most 5 seconds old.",
		Role: access.Viewer,
	}, h.load)
}

const (
	maxAge   = 5 * time.Second // of a response
	maxLoads = 200
)

type handlers struct {
	store Store
	loads shared.Reads[string, *output]
}

type input struct {
	From  time.Time `query:"from" doc:"Begin, rounded down to a full step. Default the next full step."`
	To    time.Time `query:"to" doc:"End, exclusive. Default a day after from; at most 10,080 steps after it."`
	Step  string    `query:"step" enum:"1m,1h" default:"1m" doc:"Length of a step."`
	Queue string    `query:"queue" maxLength:"63" doc:"Name of the queue."`
	Label []string  `query:"label,explode" maxItems:"32" doc:"key=value. Repeat it to require several labels." example:"team=billing"`
}

// Load is how many runs are due in each step of a range of time.
type Load struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Step     string    `json:"step" enum:"1m,1h"`
	Zone     string    `json:"zone" doc:"Time zone of the steps, always UTC." example:"UTC"`
	Counts   []int64   `json:"counts" doc:"Runs that are due in each step. The first step begins at from."`
	Exact    bool      `json:"exact" doc:"false: the counts are estimates from a sample of the jobs."`
	Fraction float64   `json:"fraction" minimum:"0" maximum:"1" doc:"Fraction of the jobs that were counted."`
	Capacity *int64    `json:"capacity,omitempty" doc:"Runs that can start in a step. Only with a queue that has a rate."`
	Hot      []HotStep `json:"hot" doc:"The ten busiest steps, the busiest first."`
}

// HotStep is a busy step of a load.
type HotStep struct {
	At        time.Time      `json:"at" doc:"When the step begins."`
	Count     int64          `json:"count" doc:"Runs that are due in it."`
	Schedules []LoadSchedule `json:"schedules" doc:"The five schedules with the most runs in it."`
}

// LoadSchedule is a schedule behind a busy step.
type LoadSchedule struct { //nolint:revive // the name of its schema must be unique in the API
	Words    string        `json:"words" doc:"The schedule in words." example:"at 09:00 on weekdays, UTC"`
	Schedule jobs.Schedule `json:"schedule" doc:"Without start_at, end_at and jitter, which belong to a job. H is replaced."`
	Jobs     int64         `json:"jobs" doc:"Jobs with this schedule that are due in the step."`
	Count    int64         `json:"count" doc:"Their runs in it."`
}

type output struct {
	Body Load
}

var steps = map[string]time.Duration{"1m": time.Minute, "1h": time.Hour}

func (h *handlers) load(ctx context.Context, in *input) (*output, error) {
	labels, err := jobs.Labels(in.Label)
	if err != nil {
		return nil, err
	}
	p := job.LoadParams{
		Namespace: rest.Principal(ctx).Namespace, Filter: job.Filter{Labels: labels, Queue: in.Queue},
		From: in.From, To: in.To, Step: steps[in.Step],
	}
	return h.loads.Get(ctx, fmt.Sprintf("%v", p), func(ctx context.Context) (*output, error) {
		return h.read(ctx, p)
	})
}

func (h *handlers) read(ctx context.Context, p job.LoadParams) (*output, error) {
	found, err := h.store.Load(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &output{wireLoad(found)}
	if p.Filter.Queue == "" {
		return out, nil
	}
	q, err := h.store.Queue(ctx, p.Namespace, p.Filter.Queue)
	if rate := q.Limits.Rate; err == nil && rate.Count > 0 {
		capacity := int64(rate.Count) * int64(found.Step/time.Second) / int64(rate.Seconds)
		out.Body.Capacity = &capacity
	}
	if errors.Is(err, job.ErrNotFound) { // no job uses it
		err = nil
	}
	return out, err
}

func wireLoad(l job.Load) Load {
	out := Load{
		From: l.From.UTC(), To: l.To.UTC(), Step: "1m", Zone: "UTC", Counts: l.Counts, Exact: l.Exact, Fraction: l.Fraction,
	}
	if l.Step == time.Hour {
		out.Step = "1h"
	}
	out.Hot = rest.Map(l.Hot, func(hot job.HotStep) HotStep {
		return HotStep{At: hot.At.UTC(), Count: hot.Count, Schedules: rest.Map(hot.Schedules, wireSchedule)}
	})
	return out
}

func wireSchedule(s job.LoadSchedule) LoadSchedule {
	return LoadSchedule{
		Words: s.Schedule.Words(), Schedule: jobs.Schedule{Spec: s.Schedule.Spec()}, Jobs: s.Jobs, Count: s.Runs,
	}
}
