package jobs

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Runs is the part of the store that lists runs.
type Runs interface {
	Runs(ctx context.Context, q job.RunQuery) (job.RunPage, error)
}

// LastRun is the newest run of a job that has started. If none has, it is the newest one that was skipped.
type LastRun struct {
	ID        string     `json:"id"`
	State     string     `json:"state" doc:"As in the run." example:"succeeded"`
	Reason    string     `json:"reason,omitempty" doc:"As in the run." example:"attempts"`
	DueAt     time.Time  `json:"due_at"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
}

const (
	lastRunsRead = 50
	// Runs of the next moments are not read: a job that is due every second has a minute of planned runs. Some seconds
	// more allow for a clock that differs from the database's.
	lastRunAhead = 5 * time.Second
)

// lastRun returns the last run of a job, or nil if there is none among the newest lastRunsRead.
func (h *Handlers) lastRun(ctx context.Context, j *job.Job) (*LastRun, error) {
	if h.runs == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	page, err := h.runs.Runs(ctx, job.RunQuery{
		Namespace: j.Namespace, Job: j.ID, DueBefore: clock.Now().Add(lastRunAhead), Limit: lastRunsRead,
	})
	if err != nil {
		return nil, err
	}
	var last *LastRun
	for _, e := range page.Entries {
		started := rest.OptionalTime(e.BeganAt())
		if e.EndedAt.IsZero() && started == nil || last != nil && started == nil {
			continue
		}
		last = &LastRun{
			ID: job.FormatRunID(e.Key), State: string(e.Status), Reason: string(e.Reason), DueAt: e.DueAt,
			StartedAt: started, EndedAt: rest.OptionalTime(e.EndedAt),
		}
		if started != nil {
			break
		}
	}
	return last, nil
}
