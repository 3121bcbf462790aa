package jobs

import (
	"context"
	"net/http"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/trace"
)

func (h *Handlers) registerVerbs() {
	rest.Register(h.api, rest.Operation{
		ID: "pause-job", Route: "POST /jobs/{job}:pause", Summary: "Pause a job",
		Description: "Runs by schedule that have not begun are taken back; what has begun is carried to its end, " +
			"and what was asked for by hand still runs. " + claimLead,
		Role: access.Operator, Example: `{"note":"its target is being repaired"}`,
	}, h.pauseJob)
	rest.Register(h.api, rest.Operation{
		ID: "resume-job", Route: "POST /jobs/{job}:resume", Summary: "Resume a job", Role: access.Operator,
	}, h.resumeJob)
	rest.Register(h.api, rest.Operation{
		ID: "trigger-job", Route: "POST /jobs/{job}:trigger", Summary: "Run a job now",
		Role: access.Operator, Status: http.StatusAccepted, Example: `{"payload":{"report":"sales"}}`,
	}, h.triggerJob)
}

type pauseJobInput struct {
	JobPath
	Precondition
	Body *struct {
		Note string `json:"note,omitempty" maxLength:"500" doc:"The reason, for people."`
	}
}

func (h *Handlers) pauseJob(ctx context.Context, in *pauseJobInput) (*JobOutput, error) {
	params, err := h.changeParams(ctx, in.Job, &in.Precondition)
	if err != nil {
		return nil, err
	}
	note := ""
	if in.Body != nil {
		note = in.Body.Note
	}
	c, err := h.verbs.PauseJob(ctx, params, note)
	if err != nil {
		return nil, in.failed(err)
	}
	return jobResult(c.Job), nil
}

type resumeJobInput struct {
	JobPath
	Precondition
}

type resumeJobOutput struct {
	ETag string `header:"ETag"`
	Body struct {
		Job
		MissedOccurrences int64 `json:"missed_occurrences" doc:"Missed while paused; missed.paused applies."`
	}
}

func (h *Handlers) resumeJob(ctx context.Context, in *resumeJobInput) (*resumeJobOutput, error) {
	params, err := h.changeParams(ctx, in.Job, &in.Precondition)
	if err != nil {
		return nil, err
	}
	c, err := h.verbs.ResumeJob(ctx, params)
	if err != nil {
		return nil, in.failed(err)
	}
	r := jobResult(c.Job)
	out := &resumeJobOutput{ETag: r.ETag}
	out.Body.Job, out.Body.MissedOccurrences = r.Body, c.Missed
	return out, nil
}

type triggerJobInput struct {
	JobPath
	Precondition
	rest.Idempotency
	Traceparent string `header:"traceparent" maxLength:"200" doc:"W3C trace context for the deliveries. Ignored if invalid."`
	Body        *struct {
		Payload rest.JSON `json:"payload,omitempty" doc:"Replaces the job's payload for this run."`
	}
}

type triggerJobOutput struct {
	Body struct {
		Run   string `json:"run" doc:"The id of the run."`
		DueAt string `json:"due_at" format:"date-time" doc:"Now, by the database's clock."`
	}
}

func (h *Handlers) triggerJob(ctx context.Context, in *triggerJobInput) (*triggerJobOutput, error) {
	params, err := h.changeParams(ctx, in.Job, &in.Precondition)
	if err != nil {
		return nil, err
	}
	params.Trace, _ = trace.Parse(in.Traceparent)
	var payload rest.JSON
	if in.Body != nil {
		payload = in.Body.Payload
	}
	trigger := func(once *job.IdempotentRequest) (job.Key, error) {
		params.Idempotent = once
		return h.verbs.TriggerJob(ctx, params, payload.Raw())
	}
	out, err := rest.Once(&in.Idempotency, "trigger-job", []any{params.ID, payload}, triggeredRun, trigger)
	return out, in.failed(err)
}

func triggeredRun(key job.Key) *triggerJobOutput {
	out := &triggerJobOutput{}
	out.Body.Run, out.Body.DueAt = job.FormatRunID(key), key.DueAt.Format("2006-01-02T15:04:05.000000Z")
	return out
}
