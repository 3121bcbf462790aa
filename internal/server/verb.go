package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// claimLead is what users must know about changes and the runs of the next moment.
const claimLead = "Runs are claimed up to 250 ms before they are due, so that they start on time: after the answer no run of the job begins but one that was claimed before, which is due within 250 ms."

func (s *Server) registerVerbs() {
	pause := operation("pause-job", http.MethodPost, "/jobs/{job}:pause", "Pause a job", access.Operator)
	pause.Description = "Runs by schedule that have not begun are taken back; what has begun is carried to its end, and what was asked for by hand still runs. " + claimLead
	huma.Register(s.api, pause, s.pauseJob)
	huma.Register(s.api, operation("resume-job", http.MethodPost, "/jobs/{job}:resume", "Resume a job", access.Operator), s.resumeJob)
	trigger := operation("trigger-job", http.MethodPost, "/jobs/{job}:trigger", "Run a job now", access.Operator)
	trigger.DefaultStatus = http.StatusAccepted
	huma.Register(s.api, trigger, s.triggerJob)
}

type pauseJobInput struct {
	JobPath
	Precondition
	Body *struct {
		Note string `json:"note,omitempty" maxLength:"500" doc:"Why, for those who wonder later."`
	}
}

func (s *Server) pauseJob(ctx context.Context, in *pauseJobInput) (*JobOutput, error) {
	o, err := s.order(ctx, in.Job, &in.Precondition)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	note := ""
	if in.Body != nil {
		note = in.Body.Note
	}
	c, err := s.opts.Verbs.PauseJob(ctx, o, note)
	if err != nil {
		return nil, s.changed(ctx, err, &in.Precondition)
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
		MissedOccurrences int64 `json:"missed_occurrences" doc:"Occurrences that were due while it was paused. missed.paused says what becomes of them."`
	}
}

func (s *Server) resumeJob(ctx context.Context, in *resumeJobInput) (*resumeJobOutput, error) {
	o, err := s.order(ctx, in.Job, &in.Precondition)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	c, err := s.opts.Verbs.ResumeJob(ctx, o)
	if err != nil {
		return nil, s.changed(ctx, err, &in.Precondition)
	}
	r := jobResult(c.Job)
	out := &resumeJobOutput{ETag: r.ETag}
	out.Body.Job, out.Body.MissedOccurrences = r.Body, c.Missed
	return out, nil
}

type triggerJobInput struct {
	JobPath
	Precondition
	Idempotency
	Traceparent string `header:"traceparent" maxLength:"200" doc:"A W3C trace context, which the run's deliveries continue. One that cannot be read counts as none."`
	Body        *struct {
		Payload JSON `json:"payload,omitempty" doc:"In place of the job's, for this run alone."`
	}
}

type triggerJobOutput struct {
	Body struct {
		Run   string `json:"run" doc:"The id of the run."`
		DueAt string `json:"due_at" format:"date-time" doc:"Now, by the database's clock."`
	}
}

func (s *Server) triggerJob(ctx context.Context, in *triggerJobInput) (*triggerJobOutput, error) {
	o, err := s.order(ctx, in.Job, &in.Precondition)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	var payload JSON
	if in.Body != nil {
		payload = in.Body.Payload
	}
	o.Idempotent, err = in.once("trigger-job", []any{o.ID, payload}, func(key any) any { return triggeredRun(key.(job.Key)) })
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	o.Trace, _ = job.ParseTraceparent(in.Traceparent)
	key, err := s.opts.Verbs.TriggerJob(ctx, o, null(payload))
	if err != nil {
		out, err := recalled[triggerJobOutput](o.Idempotent, err)
		if err != nil {
			return nil, s.refused(ctx, err, &in.Precondition)
		}
		return out, nil
	}
	return triggeredRun(key), nil
}

func triggeredRun(key job.Key) *triggerJobOutput {
	out := &triggerJobOutput{}
	out.Body.Run, out.Body.DueAt = job.FormatRunID(key), key.DueAt.Format("2006-01-02T15:04:05.000000Z")
	return out
}
