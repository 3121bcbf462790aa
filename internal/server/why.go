package server

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/jobs"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/why"
)

// Stories is the part of the store that explains occurrences.
type Stories interface {
	Why(ctx context.Context, o why.Params) ([]why.Story, error)
}

func (s *Server) registerWhy() {
	rest.Register(s.api, rest.Operation{
		ID: "explain-job", Route: "GET /jobs/{job}/why", Summary: "Explain what happened to an occurrence, and why",
		Description: "Without a time, it explains the newest run of any origin, the last and the next occurrence, " +
			"and up to three of the newest dead letters, in the order of their due times. " +
			"Name a deleted job by its id; its history and versions remain.",
		Role: access.Viewer,
	}, s.explainJob)
	rest.Register(s.api, rest.Operation{
		ID: "explain-run", Route: "GET /runs/{run}/why", Summary: "Explain what happened to a run, and why",
		Role: access.Viewer,
	}, s.explainRun)
}

// Story explains what happened to an occurrence.
type Story struct {
	DueAt   time.Time   `json:"due_at" doc:"Due time of the occurrence, in UTC."`
	Local   string      `json:"local" doc:"The same in the job's time zone." example:"2026-03-29 02:30:00 CET"`
	Code    StoryCode   `json:"code" doc:"What happened to it, for programs. Codes never change."`
	Reason  string      `json:"reason,omitempty" doc:"Why skipped, failed or cancelled." example:"missed_window"`
	Text    string      `json:"text" doc:"What happened and why, for people."`
	Next    string      `json:"next,omitempty" doc:"What happens next, or what to do, for people."`
	Try     [][]string  `json:"commands,omitempty" doc:"Commands of the CLI to run next, as lists of arguments of belfry."`
	Version int32       `json:"version,omitempty" doc:"Version of the definition that applied."`
	Nearest []time.Time `json:"nearest,omitempty" doc:"If it is no occurrence: the ones before and after."`
	Run     *Run        `json:"run,omitempty" doc:"The run, if there is one."`
}

// StoryCode is a why.Code.
type StoryCode = rest.Enum[storyCodes]

type storyCodes struct{}

func (storyCodes) Name() string { return "StoryCode" }

func (storyCodes) Values() []any {
	return []any{
		"succeeded", "failed", "cancelled", "skipped", "running", "accepted", "retrying", "planned", "deferred",
		"queue_paused", "queue_full", "queue_rate", "run_quota", "key_full", "behind", "due", "not_due", "paused",
		"created_later", "deleted", "before_start", "after_end", "no_occurrence", "unplanned",
		"forgotten", "archived", "unknown",
	}
}

type explainJobInput struct {
	jobs.JobPath
	At string `query:"at" maxLength:"40" doc:"Time, with an offset or in the job's zone." example:"2026-03-29T02:30"`
}

// Explanation explains occurrences of a job.
type Explanation struct {
	Job   string  `json:"job" doc:"The id of the job."`
	Items []Story `json:"items"`
}

type explainJobOutput struct {
	Body Explanation
}

func (s *Server) explainJob(ctx context.Context, in *explainJobInput) (*explainJobOutput, error) {
	id, err := s.jobs.ID(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	return s.explain(ctx, why.Params{Namespace: rest.Principal(ctx).Namespace, Job: id, At: in.At})
}

func (s *Server) explainRun(ctx context.Context, in *RunPath) (*explainJobOutput, error) {
	k, err := in.key()
	if err != nil {
		return nil, err
	}
	return s.explain(ctx, why.Params{Namespace: rest.Principal(ctx).Namespace, Job: k.Job, Run: &k})
}

func (s *Server) explain(ctx context.Context, params why.Params) (*explainJobOutput, error) {
	stories, err := s.opts.Stories.Why(ctx, params)
	if err != nil {
		return nil, err
	}
	out := &explainJobOutput{}
	out.Body.Job, out.Body.Items = job.FormatJobID(params.Job), rest.Map(stories, wireStory)
	return out, nil
}

func wireStory(w why.Story) Story {
	out := Story{
		DueAt: w.At, Local: w.At.In(w.Zone).Format("2006-01-02 15:04:05 MST"),
		Code: StoryCode(w.Code), Reason: string(w.Reason), Text: w.Text, Next: w.Next, Try: w.Commands,
		Version: w.Version, Nearest: w.Nearest,
	}
	if w.Entry != nil {
		r := wireRun(*w.Entry)
		out.Run = &r
	}
	return out
}
