package server

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// DeadLetters is the part of the store that has the dead letters.
type DeadLetters interface {
	DeadLetters(ctx context.Context, q job.DeadQuery) (job.DeadPage, error)
	SummarizeDeadLetters(ctx context.Context, q job.DeadQueryBy) (job.DeadSummary, error)
	CountDeadLetters(ctx context.Context, namespace uuid.UUID, f job.DeadFilter) (count int64, more bool, err error)
	RedriveDeadLetter(ctx context.Context, o job.RunParams) error
	DiscardDeadLetter(ctx context.Context, o job.RunParams) error
}

func (s *Server) registerDeadLetters() {
	rest.Register(s.api, rest.Operation{
		ID: "list-dead-letters", Route: "GET /dead-letters", Summary: "List dead letters, the newest first",
		Role: access.Viewer,
	}, s.listDeadLetters)
	rest.Register(s.api, rest.Operation{
		ID: "summarize-dead-letters", Route: "GET /dead-letters:summary", Summary: "Group dead letters by what they share",
		Description: "The largest group is first, and there are at most 200. Counts stop at a limit, and then say so " +
			"with more. At most 50,000 dead letters are counted, or 20,000 by job or of one job.",
		Role: access.Viewer,
	}, s.summarizeDeadLetters)
	rest.Register(s.api, rest.Operation{
		ID: "redrive-dead-letter", Route: "POST /dead-letters/{run}:redrive", Summary: "Redrive a dead letter",
		Description: "The run is live again under its old id and idempotency key, " +
			"with all attempts of the job's policy, and is no longer a dead letter.",
		Role: access.Operator, Status: http.StatusAccepted,
	}, s.redriveDeadLetter)
	rest.Register(s.api, rest.Operation{
		ID: "discard-dead-letter", Route: "POST /dead-letters/{run}:discard", Summary: "Discard a dead letter",
		Description: "History keeps how the run failed.", Role: access.Operator, Status: http.StatusNoContent,
	}, s.discardDeadLetter)
}

// DeadLetter is a failed run that waits for redrive or discard.
type DeadLetter struct {
	Run      string    `json:"run" doc:"The id of the run, which is also the id of the dead letter."`
	Job      string    `json:"job" doc:"The id of its job."`
	JobName  string    `json:"job_name,omitempty" doc:"Absent: the job is deleted. It can be discarded, not redriven."`
	Queue    string    `json:"queue"`
	DueAt    time.Time `json:"due_at"`
	FailedAt time.Time `json:"failed_at"`
	Attempt  int16     `json:"attempt" doc:"The number of the last attempt."`
	Reason   string    `json:"reason" example:"attempts"`
	Status   int       `json:"status,omitempty" doc:"Status code of the target's protocol, such as 502."`
	Cause    string    `json:"cause" example:"attempts-502-9f8e7d6c5b4a"`
	Message  string    `json:"message,omitempty" doc:"Result of the last attempt."`
}

// Descriptions implements rest.Described.
func (DeadLetter) Descriptions() map[string]string {
	return map[string]string{
		"cause": "Key of the failures that look alike: the same reason, status and message, whatever numbers, ids, " +
			"times and quoted values the message has.",
	}
}

func wireDeadLetter(d job.DeadLetter) DeadLetter {
	return DeadLetter{
		Run: job.FormatRunID(d.Key), Job: job.FormatJobID(d.Job), JobName: d.JobName, Queue: d.Queue, DueAt: d.DueAt,
		FailedAt: d.FailedAt, Attempt: d.Attempt, Reason: string(d.Reason), Status: d.Status, Cause: d.Cause,
		Message: d.Message,
	}
}

// DeadFilter says which dead letters a request is about.
type DeadFilter struct {
	Job        string    `query:"job" maxLength:"600" doc:"Id or name of the job."`
	Queue      string    `query:"queue" maxLength:"63" doc:"Name of the queue."`
	Reason     string    `query:"reason" maxLength:"40" doc:"Reason of the failure." example:"attempts"`
	Cause      string    `query:"cause" maxLength:"64" doc:"Cause of the failure, as in the summary."`
	FailedFrom time.Time `query:"failed_from" doc:"Failed at this time or later."`
	FailedTo   time.Time `query:"failed_to" doc:"Failed before this time."`
}

type listDeadLettersInput struct {
	DeadFilter
	rest.PageInput
}

// deadFilter returns a filter in the words of package job.
func (s *Server) deadFilter(ctx context.Context, f DeadFilter) (out job.DeadFilter, err error) {
	out = job.DeadFilter{
		Queue: f.Queue, Reason: job.Reason(f.Reason), Cause: f.Cause, FailedFrom: f.FailedFrom, FailedBefore: f.FailedTo,
	}
	if f.Job != "" {
		out.Job, err = s.jobs.ID(ctx, f.Job)
	}
	return out, err
}

func (s *Server) listDeadLetters(ctx context.Context, in *listDeadLettersInput) (*rest.PageOutput[DeadLetter], error) {
	f, err := s.deadFilter(ctx, in.DeadFilter)
	if err != nil {
		return nil, err
	}
	q := job.DeadQuery{Namespace: rest.Principal(ctx).Namespace, DeadFilter: f, Limit: in.PageSize}
	if err := in.After(ctx, &q.After); err != nil {
		return nil, err
	}
	page, err := s.opts.DeadLetters.DeadLetters(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &rest.PageOutput[DeadLetter]{}
	out.Body.Items = rest.Map(page.Letters, wireDeadLetter)
	if page.Next != nil {
		out.Body.NextPageToken = rest.Token(ctx, page.Next)
	}
	return out, nil
}

func (s *Server) redriveDeadLetter(ctx context.Context, in *RedriveInput) (*startedRunOutput, error) {
	return s.rerun(ctx, "redrive-dead-letter", in, s.opts.DeadLetters.RedriveDeadLetter)
}

func (s *Server) discardDeadLetter(ctx context.Context, in *RunPath) (*struct{}, error) {
	params, err := in.params(ctx)
	if err != nil {
		return nil, err
	}
	return nil, s.opts.DeadLetters.DiscardDeadLetter(ctx, params)
}
