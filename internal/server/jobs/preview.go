package jobs

import (
	"cmp"
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

func (h *Handlers) registerPreviews() {
	rest.Register(h.api, rest.Operation{
		ID: "preview-new-job", Route: "POST /jobs:preview", Summary: "Preview a schedule or a job that is not saved",
		Description: "Nothing is saved. H in a cron expression is spread by the job's id, which is not known yet: " +
			"its times are an example.",
		Role:    access.Viewer,
		Example: `{"schedule":{"cron":"30 2 * * *","timezone":"America/New_York"},"count":5}`,
	}, h.previewUnsaved)
	rest.Register(h.api, rest.Operation{
		ID: "preview-job", Route: "GET /jobs/{job}/preview", Summary: "Preview a job",
		Description: "What its schedule says, whether or not the job is paused or has runs left.",
		Role:        access.Viewer,
	}, h.previewSaved)
}

// PreviewRequest names what to preview.
type PreviewRequest struct {
	Schedule *Schedule `json:"schedule,omitempty" doc:"The schedule to preview. Send either this or job."`
	Job      *JobInput `json:"job,omitempty" doc:"The job to preview, validated as if it were created."`
	From     time.Time `json:"from,omitempty" doc:"List times from this one on. Default now."`
	Count    int       `json:"count,omitempty" minimum:"1" maximum:"100" doc:"Number of occurrences that run. Default 10."`
}

type previewUnsavedInput struct {
	Body PreviewRequest
}

type previewSavedInput struct {
	JobPath
	From  time.Time `query:"from" doc:"List times from this one on. Default now."`
	Count int       `query:"count" minimum:"1" maximum:"100" default:"10" doc:"Number of occurrences that run."`
}

// Preview lists what a schedule says.
type Preview struct {
	Schedule Schedule `json:"schedule" doc:"As it was written."`
	InWords
	Occurrences  []schedule.PreviewLine     `json:"occurrences" doc:"In order, including skipped ones."`
	More         bool                       `json:"more" doc:"false: the schedule ends there."`
	ClockChanges []schedule.ClockChangeLine `json:"clock_changes" doc:"The next two of the zone, if it has any."`

	Key        string `json:"idempotency_key,omitempty" doc:"Key of the first run, with the job's payload."`
	KeyProblem string `json:"idempotency_key_problem,omitempty" doc:"Why there is no key."`
}

type previewOutput struct {
	Body Preview
}

const (
	defaultPreview = 10
	clockChanges   = 2 // listed in a preview: the ten next times seldom include one
)

func (h *Handlers) previewUnsaved(ctx context.Context, in *previewUnsavedInput) (*previewOutput, error) {
	b := &in.Body
	if (b.Schedule == nil) == (b.Job == nil) {
		return nil, &problem.Problem{
			Field: "schedule", Problem: "not exactly one of schedule and job is given",
			Fix: "send the one that is meant",
		}
	}
	count := cmp.Or(b.Count, defaultPreview)
	if b.Job == nil {
		return preview(b.Schedule.Spec, "", b.From, count)
	}
	d, err := b.Job.checked(h.targetCheck(ctx))
	if err != nil {
		return nil, err
	}
	return previewJob(ctx, job.Job{Definition: d}, "", b.From, count)
}

func (h *Handlers) previewSaved(ctx context.Context, in *previewSavedInput) (*previewOutput, error) {
	j, err := h.find(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	return previewJob(ctx, j, j.ID.String(), in.From, in.Count)
}

// previewJob previews the schedule of a job, with an example of its idempotency key.
func previewJob(ctx context.Context, j job.Job, spread string, from time.Time, n int) (*previewOutput, error) {
	out, err := preview(j.Schedule, spread, from, n)
	if err != nil || j.IdempotencyKey == "" {
		return out, err
	}
	for _, o := range out.Body.Occurrences {
		if o.DueAt == nil || o.Skip != "" {
			continue
		}
		if out.Body.Key, err = j.ExampleKey(*o.DueAt, rest.Principal(ctx).NamespaceName); err != nil {
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

// preview lists occurrences of a schedule. spread is what spreads H in a cron expression.
func preview(spec schedule.Spec, spread string, from time.Time, n int) (*previewOutput, error) {
	if from.IsZero() {
		from = clock.Now()
	}
	if y := from.UTC().Year(); y < firstYear || y > lastYear {
		return nil, &problem.Problem{
			Field: "from", Problem: "its year is out of range", Fix: "use a year from 1970 to 2199",
		}
	}
	compiled, err := schedule.New(spec, spread)
	if err != nil {
		return nil, job.ScheduleProblem(err)
	}
	lines, more, err := compiled.Preview(from, n)
	if err != nil {
		return nil, job.ScheduleProblem(err)
	}
	out := &previewOutput{}
	out.Body.Schedule, out.Body.InWords, out.Body.More = Schedule{spec}, wordsOf(compiled), more
	out.Body.ClockChanges = rest.Map(compiled.ClockChanges(from, clockChanges), schedule.ClockChange.JSON)
	out.Body.Occurrences = rest.Map(lines, schedule.Preview.JSON)
	return out, nil
}
