package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func (s *Server) registerPreviews() {
	unsaved := operation("preview-job", http.MethodPost, "/jobs:preview", "Preview a schedule or a job that is not saved", access.Viewer)
	unsaved.Description = "Nothing is saved. H in a cron expression is spread by the job's id, which is not known yet: its times are an example."
	huma.Register(s.api, unsaved, s.previewUnsaved)
	saved := operation("preview-saved-job", http.MethodGet, "/jobs/{job}/preview", "Preview a job", access.Viewer)
	saved.Tags = unsaved.Tags
	saved.Description = "What its schedule says, whether or not the job is paused or has runs left."
	huma.Register(s.api, saved, s.previewSaved)
}

type previewUnsavedInput struct {
	Body struct {
		Schedule *Schedule `json:"schedule,omitempty" doc:"A schedule alone."`
		Job      *JobInput `json:"job,omitempty" doc:"Or a whole job, which is checked as if it were created."`
		From     time.Time `json:"from,omitempty" doc:"List times from this one on. Default now."`
		Count    int       `json:"count,omitempty" minimum:"0" maximum:"100" doc:"How many that run. Default 10."`
	}
}

type previewSavedInput struct {
	JobPath
	From  time.Time `query:"from" doc:"List times from this one on. Default now."`
	Count int       `query:"count" minimum:"1" maximum:"100" default:"10" doc:"How many that run."`
}

type previewOutput struct {
	Body struct {
		Schedule    Schedule               `json:"schedule" doc:"As it was written."`
		Occurrences []schedule.PreviewJSON `json:"occurrences" doc:"In order, with those that are skipped."`
		More        bool                   `json:"more" doc:"false: the schedule ends there."`
		Key         string                 `json:"idempotency_key,omitempty" doc:"What the job's idempotency_key gives for the first of them that runs, with the job's own payload."`
		KeyProblem  string                 `json:"idempotency_key_problem,omitempty" doc:"Why it gives none."`
	}
}

const defaultPreview = 10

func (s *Server) previewUnsaved(ctx context.Context, in *previewUnsavedInput) (*previewOutput, error) {
	b := &in.Body
	if (b.Schedule == nil) == (b.Job == nil) {
		return nil, s.problem(ctx, &job.Problem{Field: "schedule", Problem: "not exactly one of schedule and job is given", Fix: "send the one that is meant"})
	}
	if b.Count == 0 {
		b.Count = defaultPreview
	}
	if b.Job == nil {
		return s.preview(ctx, b.Schedule.Spec, "", b.From, b.Count)
	}
	d, err := s.checked(b.Job)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.previewJob(ctx, job.Job{Definition: d}, "", b.From, b.Count)
}

func (s *Server) previewSaved(ctx context.Context, in *previewSavedInput) (*previewOutput, error) {
	j, err := s.named(ctx, in.Job)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return s.previewJob(ctx, j, j.ID.String(), in.From, in.Count)
}

// previewJob is preview with an example of the idempotency key.
func (s *Server) previewJob(ctx context.Context, j job.Job, spread string, from time.Time, n int) (*previewOutput, error) {
	out, err := s.preview(ctx, j.Schedule, spread, from, n)
	if err != nil || j.IdempotencyKey == "" {
		return out, err
	}
	for _, o := range out.Body.Occurrences {
		if o.DueAt == nil || o.Skip != "" {
			continue
		}
		if out.Body.Key, err = j.ExampleKey(*o.DueAt, principal(ctx).NamespaceName); err != nil {
			out.Body.KeyProblem = err.Error()
		}
		break
	}
	return out, nil
}

// The years that a preview may begin in.
const (
	firstYear = 1970
	lastYear  = 2199
)

func (s *Server) preview(ctx context.Context, spec schedule.Spec, spread string, from time.Time, n int) (*previewOutput, error) {
	if from.IsZero() {
		from = clock.Now()
	}
	if y := from.UTC().Year(); y < firstYear || y > lastYear {
		return nil, s.problem(ctx, &job.Problem{Field: "from", Problem: "its year is out of range", Fix: "use a year from 1970 to 2199"})
	}
	compiled, err := schedule.New(spec, spread)
	if err != nil {
		return nil, s.problem(ctx, job.ScheduleProblem(err))
	}
	lines, more, err := compiled.Preview(from, n)
	if err != nil {
		return nil, s.problem(ctx, job.ScheduleProblem(err))
	}
	out := &previewOutput{}
	out.Body.Schedule, out.Body.More, out.Body.Occurrences = Schedule{spec}, more, make([]schedule.PreviewJSON, len(lines))
	for i, l := range lines {
		out.Body.Occurrences[i] = l.JSON()
	}
	return out, nil
}
