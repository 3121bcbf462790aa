package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/why"
)

// Stories is the store, as why sees it.
type Stories interface {
	Why(ctx context.Context, o why.Params) ([]why.Story, error)
}

func (s *Server) registerWhy() {
	o := operation("explain-job", http.MethodGet, "/jobs/{job}/why", "Tell what became of an occurrence, and why", access.Viewer)
	o.Description = "Without a time: of the last and of the next occurrence. A job that is deleted is named by its id; its history and versions remain."
	huma.Register(s.api, o, s.explainJob)
}

// Story is what became of an occurrence.
type Story struct {
	At      time.Time   `json:"at" doc:"The occurrence's due time, in UTC."`
	Local   string      `json:"local" doc:"The same on the clock of the job's zone." example:"2026-03-29 02:30:00 CET"`
	Code    string      `json:"code" enum:"succeeded,failed,cancelled,skipped,running,waiting,retrying,planned,held,queue_paused,queue_full,queue_rate,key_full,behind,due,not_due,paused,created_later,deleted,finished,before_start,after_end,no_occurrence,unplanned,forgotten,unknown" doc:"What became of it, for programs. It never changes."`
	Reason  string      `json:"reason,omitempty" doc:"Of a skip, a failure or a cancellation." example:"missed_window"`
	Text    string      `json:"text" doc:"What happened and why, for people."`
	Next    string      `json:"next,omitempty" doc:"What comes, or what can be done about it, for people."`
	Version int32       `json:"version,omitempty" doc:"Of the definition that was in force."`
	Nearest []time.Time `json:"nearest,omitempty" doc:"Where the schedule has no occurrence: the one before and the one after."`
	Run     *Run        `json:"run,omitempty" doc:"What the ledger says."`
}

type explainJobInput struct {
	JobPath
	At string `query:"at" maxLength:"40" doc:"The time of the occurrence: with an offset, or without one on the clock of the job's zone. Default: the last and the next occurrence." example:"2026-03-29T02:30"`
}

type explainJobOutput struct {
	Body struct {
		Job   string  `json:"job" doc:"The id of the job."`
		Items []Story `json:"items"`
	}
}

func (s *Server) explainJob(ctx context.Context, in *explainJobInput) (*explainJobOutput, error) {
	id, err := s.idOf(ctx, in.Job)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	stories, err := s.opts.Stories.Why(ctx, why.Params{Namespace: principal(ctx).Namespace, Job: id, At: in.At})
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &explainJobOutput{}
	out.Body.Job = job.FormatJobID(id)
	out.Body.Items = make([]Story, len(stories))
	for i, w := range stories {
		out.Body.Items[i] = wireWhy(w)
	}
	return out, nil
}

func wireWhy(w why.Story) Story {
	out := Story{
		At: w.At, Local: w.At.In(w.Zone).Format("2006-01-02 15:04:05 MST"), Code: string(w.Code), Reason: string(w.Reason),
		Text: w.Text, Next: w.Next, Version: w.Version, Nearest: w.Nearest,
	}
	if w.Entry != nil {
		r := wireRun(*w.Entry)
		out.Run = &r
	}
	return out
}
