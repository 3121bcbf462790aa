package jobs

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Include says what else a response has.
type Include struct {
	Include string `query:"include" enum:"recent" doc:"recent: with the newest runs and skips of each job."`
}

// maxRecentJobs is how many jobs a page with recent runs has.
const maxRecentJobs = 100

// Recent is what a job has done recently.
type Recent struct {
	Recent  []RecentRun `json:"recent,omitempty" doc:"With include=recent: the newest 12 runs and skips, the oldest first."`
	Partial bool        `json:"recent_partial,omitempty" doc:"There may be older ones than recent, which were not read."`
}

// RecentRun is a run, or a range of skipped occurrences.
type RecentRun struct {
	Run       string     `json:"run,omitempty" doc:"The id of the run. Absent: a range of skipped occurrences."`
	DueAt     time.Time  `json:"due_at" doc:"Of a range: the first due time."`
	LastDueAt *time.Time `json:"last_due_at,omitempty" doc:"Of a range: the last due time."`
	Count     int64      `json:"count,omitempty" doc:"Of a range: how many occurrences it has, if they were counted."`
	State     string     `json:"state" doc:"As in the run." example:"succeeded"`
	Reason    string     `json:"reason,omitempty" doc:"As in the run." example:"attempts"`
	Lateness  *int64     `json:"lateness_ms,omitempty" doc:"How late its first attempt began, in milliseconds."`
}

// addRecent adds the newest runs and skips to jobs.
func (h *Handlers) addRecent(ctx context.Context, found []job.Job, out []Job) error {
	recent, err := h.views.RecentRuns(ctx, rest.Principal(ctx).Namespace, found)
	if err != nil {
		return err
	}
	for i, j := range found {
		spread := spreadOf(j.Schedule, j.ID.String())
		out[i].Recent.Recent = rest.Map(recent[i].Entries, func(e job.Entry) RecentRun {
			r := RecentRun{
				DueAt: e.DueAt, LastDueAt: rest.OptionalTime(e.DueTo), Count: e.Count,
				State: string(e.Status), Reason: string(e.Reason), Lateness: lateness(&e, spread),
			}
			if e.DueTo.IsZero() {
				r.Run = job.FormatRunID(e.Key)
			}
			return r
		})
		out[i].Partial = recent[i].Partial
	}
	return nil
}

// spreadOf returns the jitter of the occurrences of a job.
func spreadOf(spec schedule.Spec, id string) func(due time.Time) time.Duration {
	s, err := schedule.New(spec, id)
	if err != nil || spec.Jitter == "" {
		return func(time.Time) time.Duration { return 0 }
	}
	return func(due time.Time) time.Duration { return s.RunAt(due, id).Sub(due) }
}

// lateness returns how late a run began in milliseconds, or nil if there is no such time.
func lateness(e *job.Entry, spread func(time.Time) time.Duration) *int64 {
	late, ok := e.Lateness(spread(e.DueAt))
	if !ok {
		return nil
	}
	ms := late.Milliseconds()
	return &ms
}
