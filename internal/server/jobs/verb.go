package jobs

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/trace"
)

func (h *Handlers) registerVerbs() {
	rest.Register(h.api, rest.Operation{
		ID: "pause-job", Route: "POST /jobs/{job}:pause", Summary: "Pause a job",
		Description: "Runs by schedule that have not begun are taken back; what has begun is carried to its end, " +
			"and what was asked for by hand still runs. " + claimLead + "\n\n" +
			"With until, Belfry resumes the job at that time: an occurrence at that time or later runs, " +
			"and missed.paused decides about earlier ones, as for a resume by a user. " +
			"For a job that is already paused, until replaces the end of its pause.",
		Role: access.Operator, Example: `{"note":"its target is being repaired","until":"2036-05-01T06:00:00Z"}`,
	}, h.pauseJob)
	rest.Register(h.api, rest.Operation{
		ID: "resume-job", Route: "POST /jobs/{job}:resume", Summary: "Resume a job", Role: access.Operator,
	}, h.resumeJob)
}

// PauseJobRequest says why a job is paused.
type PauseJobRequest struct {
	Note  string    `json:"note,omitempty" maxLength:"500" doc:"The reason, for people."`
	Until time.Time `json:"until,omitempty" doc:"When Belfry resumes the job. Absent: a user has to."`
}

type pauseJobInput struct {
	JobPath
	Precondition
	Body *PauseJobRequest
}

func (h *Handlers) pauseJob(ctx context.Context, in *pauseJobInput) (*JobOutput, error) {
	params, err := h.changeParams(ctx, in.Job, &in.Precondition)
	if err != nil {
		return nil, err
	}
	note := ""
	if in.Body != nil {
		note, params.Until = in.Body.Note, in.Body.Until
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

// ResumedJob is a job that was paused.
type ResumedJob struct {
	Job
	MissedOccurrences int64 `json:"missed_occurrences" doc:"Missed while paused; missed.paused applies."`
}

type resumeJobOutput struct {
	ETag string `header:"ETag"`
	Body ResumedJob
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

// TriggerRequest says how a triggered run differs from others.
type TriggerRequest struct {
	Payload rest.JSON `json:"payload,omitempty" doc:"Replaces the job's payload for this run."`
	At      time.Time `json:"at,omitempty" doc:"When the run is due, at most 366 days from now. Default now."`
	IfIdle  bool      `json:"if_idle,omitempty" doc:"409 if a run of it is due, in progress or retrying."`
}

// TriggerInput is the input of trigger-job.
type TriggerInput struct {
	JobPath
	Precondition
	rest.Idempotency
	Traceparent string `header:"traceparent" maxLength:"200" doc:"W3C trace context for the deliveries. Ignored if invalid."`
	Body        *TriggerRequest
}

// Trigger creates a run that is due now, or at the time of the request, and returns its key. A repeated request with
// the same Idempotency-Key returns the key of the first run.
func (h *Handlers) Trigger(ctx context.Context, in *TriggerInput) (job.Key, error) {
	params, err := h.changeParams(ctx, in.Job, &in.Precondition)
	if err != nil {
		return job.Key{}, err
	}
	params.Trace, _ = trace.Parse(in.Traceparent)
	var with TriggerRequest
	if in.Body != nil {
		with = *in.Body
	}
	params.At, params.IfIdle = with.At, with.IfIdle
	trigger := func(once *job.IdempotentRequest) (job.Key, error) {
		params.Idempotent = once
		return h.verbs.TriggerJob(ctx, params, with.Payload.Raw())
	}
	same := func(k job.Key) *job.Key { return &k }
	key, err := rest.Once(&in.Idempotency, "trigger-job", []any{params.ID, with}, same, trigger)
	if err != nil {
		return job.Key{}, in.failed(err)
	}
	return *key, nil
}
