package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// DeadLetters is the store, as dead letters see it.
type DeadLetters interface {
	DeadLetters(ctx context.Context, q job.DeadQuery) (job.DeadPage, error)
	RedriveDeadLetter(ctx context.Context, o job.RunParams) error
	DiscardDeadLetter(ctx context.Context, o job.RunParams) error
}

func (s *Server) registerDeadLetters() {
	huma.Register(s.api, deadOperation("list-dead-letters", http.MethodGet, "/dead-letters", "List dead letters, the newest first", access.Viewer), s.listDeadLetters)
	redrive := deadOperation("redrive-dead-letter", http.MethodPost, "/dead-letters/{run}:redrive", "Redrive a dead letter", access.Operator)
	redrive.Description = "The run is live again under its old id and idempotency key, with all attempts of the job's policy, and is no dead letter any more."
	redrive.DefaultStatus = http.StatusAccepted
	huma.Register(s.api, redrive, s.redriveDeadLetter)
	discard := deadOperation("discard-dead-letter", http.MethodPost, "/dead-letters/{run}:discard", "Discard a dead letter", access.Operator)
	discard.Description = "History keeps how the run failed."
	discard.DefaultStatus = http.StatusNoContent
	huma.Register(s.api, discard, s.discardDeadLetter)
}

// deadOperation is an operation of the group dead-letters.
func deadOperation(id, method, path, summary string, role access.Role) huma.Operation {
	o := operation(id, method, path, summary, role)
	o.Tags = []string{"dead-letters"}
	return o
}

// DeadLetter is a failed run that waits for redrive or discard.
type DeadLetter struct {
	Run      string    `json:"run" doc:"The id of the run, which is also the id of the dead letter."`
	Job      string    `json:"job" doc:"The id of its job."`
	JobName  string    `json:"job_name,omitempty" doc:"Empty: the job is deleted. It can be discarded, not redriven."`
	Queue    string    `json:"queue"`
	DueAt    time.Time `json:"due_at"`
	FailedAt time.Time `json:"failed_at"`
	Attempt  int16     `json:"attempt" doc:"The number of the last attempt."`
	Reason   string    `json:"reason" example:"attempts"`
	Message  string    `json:"message,omitempty" doc:"What the last attempt came to."`
}

// DeadFilter says which dead letters are meant, in a query.
type DeadFilter struct {
	Job          string    `query:"job" maxLength:"600" doc:"Those of this job: its id or its name."`
	Queue        string    `query:"queue" maxLength:"63" doc:"Those of this queue."`
	Reason       string    `query:"reason" maxLength:"40" doc:"Those that failed for this reason." example:"attempts"`
	FailedFrom   time.Time `query:"failed_from" doc:"Those that failed at this time or later."`
	FailedBefore time.Time `query:"failed_before" doc:"Those that failed before this time."`
}

type listDeadLettersInput struct {
	DeadFilter
	LedgerPage
}

type listDeadLettersOutput struct {
	Body struct {
		Items         []DeadLetter `json:"items"`
		NextPageToken string       `json:"next_page_token,omitempty" doc:"There may be more: send it as page_token. Left out: there is no more."`
	}
}

// filter is the domain's form of one.
func (s *Server) filter(ctx context.Context, f DeadFilter) (out job.DeadFilter, err error) {
	out = job.DeadFilter{Queue: f.Queue, Reason: job.Reason(f.Reason), FailedFrom: f.FailedFrom, FailedBefore: f.FailedBefore}
	if f.Job != "" {
		out.Job, err = s.idOf(ctx, f.Job)
	}
	return out, err
}

func (s *Server) listDeadLetters(ctx context.Context, in *listDeadLettersInput) (*listDeadLettersOutput, error) {
	q := job.DeadQuery{Namespace: principal(ctx).Namespace, Limit: in.PageSize}
	var err error
	if q.DeadFilter, err = s.filter(ctx, in.DeadFilter); err != nil {
		return nil, s.problem(ctx, err)
	}
	if err := in.after(&q.After); err != nil {
		return nil, s.problem(ctx, err)
	}
	page, err := s.opts.DeadLetters.DeadLetters(ctx, q)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &listDeadLettersOutput{}
	out.Body.Items = make([]DeadLetter, len(page.Letters))
	for i, d := range page.Letters {
		out.Body.Items[i] = DeadLetter{
			Run: job.FormatRunID(d.Key), Job: job.FormatJobID(d.Job), JobName: d.JobName, Queue: d.Queue, DueAt: d.DueAt,
			FailedAt: d.FailedAt, Attempt: d.Attempt, Reason: string(d.Reason), Message: d.Message,
		}
	}
	if page.Next != nil {
		out.Body.NextPageToken = tokenOf(page.Next)
	}
	return out, nil
}

func (s *Server) redriveDeadLetter(ctx context.Context, in *RedriveInput) (*runOutput, error) {
	return s.again(ctx, "redrive-dead-letter", in, s.opts.DeadLetters.RedriveDeadLetter)
}

func (s *Server) discardDeadLetter(ctx context.Context, in *RunPath) (*struct{}, error) {
	o, err := in.order(ctx)
	if err != nil {
		return nil, err
	}
	return nil, s.problem(ctx, s.opts.DeadLetters.DiscardDeadLetter(ctx, o))
}
