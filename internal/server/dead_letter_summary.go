package server

import (
	"context"
	"net/http"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// DeadLetterGroup is dead letters that have something in common.
type DeadLetterGroup struct {
	Key       string           `json:"key"`
	Count     int64            `json:"count"`
	More      bool             `json:"more" doc:"Whether there are more than count."`
	Cause     string           `json:"cause" doc:"Of the last failure."`
	Reason    string           `json:"reason" doc:"Of the last failure." example:"attempts"`
	Status    int              `json:"status,omitempty" doc:"Of the last failure: status code of the target's protocol."`
	Message   string           `json:"message,omitempty" doc:"Of the last failure."`
	Run       string           `json:"run" doc:"The last run that failed."`
	Job       string           `json:"job" doc:"The id of its job."`
	JobName   string           `json:"job_name,omitempty" doc:"Absent: the job is deleted."`
	Queue     string           `json:"queue" doc:"The queue of the last run that failed."`
	OldestAt  time.Time        `json:"oldest_at" doc:"The first failure."`
	NewestAt  time.Time        `json:"newest_at" doc:"The last failure."`
	Sparkline []int64          `json:"sparkline"`
	Since     *DeadLetterSince `json:"since,omitempty"`
}

// Descriptions implements rest.Described.
func (DeadLetterGroup) Descriptions() map[string]string {
	return map[string]string{
		"key": "What the dead letters of the group have in common: the cause, the id of the job, the reason, or the " +
			"name of the queue. As a filter of its name it selects exactly this group.",
		"sparkline": "Number of failures in 24 parts of equal length, from oldest_at to newest_at. " +
			"If there are more, it has the newest ones.",
		"since": "How runs ended after the last failure. Absent: only the 50 largest groups have it.",
	}
}

// DeadLetterSince is how runs ended after the last failure of a group.
type DeadLetterSince struct {
	From      time.Time `json:"from" doc:"The last failure of the group, or 7 days ago if that is later."`
	Succeeded int64     `json:"succeeded"`
	Failed    int64     `json:"failed"`
	Jobs      int       `json:"jobs" doc:"Whose runs are counted: the jobs that failed last in the group, at most 5."`
	More      bool      `json:"more" doc:"Whether these jobs may have more such runs."`
}

// DeadLetterSummary is the groups of dead letters.
type DeadLetterSummary struct {
	Groups  []DeadLetterGroup `json:"groups" doc:"The largest first, at most 200."`
	Total   int64             `json:"total" doc:"Number of dead letters that were counted."`
	More    bool              `json:"more" doc:"Whether there are more than total."`
	Partial bool              `json:"partial" doc:"Whether groups may be missing, because there are too many."`
}

// DeadLetterCount is how many dead letters a filter selects.
type DeadLetterCount struct {
	Count  int64        `json:"count"`
	More   bool         `json:"more" doc:"Whether there are more than count, which is 100,000 then."`
	Sample []DeadLetter `json:"sample" doc:"The newest, at most 5."`
}

type summarizeDeadLettersInput struct {
	By string `query:"by" enum:"cause,job,reason,queue" default:"cause" doc:"What to group by."`
	DeadFilter
}

type summarizeDeadLettersOutput struct {
	Body DeadLetterSummary
}

func (s *Server) summarizeDeadLetters(
	ctx context.Context, in *summarizeDeadLettersInput,
) (*summarizeDeadLettersOutput, error) {
	f, err := s.deadFilter(ctx, in.DeadFilter)
	if err != nil {
		return nil, err
	}
	q := job.DeadQueryBy{Namespace: rest.Principal(ctx).Namespace, By: job.DeadBy(in.By), DeadFilter: f}
	summary, err := s.opts.DeadLetters.SummarizeDeadLetters(ctx, q)
	if err != nil {
		return nil, err
	}
	return &summarizeDeadLettersOutput{DeadLetterSummary{
		Groups: rest.Map(summary.Groups, func(g job.DeadGroup) DeadLetterGroup { return wireGroup(q.By, g) }),
		Total:  summary.Total, More: summary.More, Partial: summary.Partial,
	}}, nil
}

func wireGroup(by job.DeadBy, g job.DeadGroup) DeadLetterGroup {
	last := wireDeadLetter(g.Last)
	out := DeadLetterGroup{
		Key: map[job.DeadBy]string{
			job.DeadByCause: last.Cause, job.DeadByJob: last.Job, job.DeadByReason: last.Reason, job.DeadByQueue: last.Queue,
		}[by],
		Count: g.Count, More: g.More, Cause: last.Cause, Reason: last.Reason, Status: last.Status, Message: last.Message,
		Run: last.Run, Job: last.Job, JobName: last.JobName, Queue: last.Queue, OldestAt: g.OldestAt,
		NewestAt: last.FailedAt, Sparkline: g.Sparkline,
	}
	if d := g.Since; d != nil {
		out.Since = &DeadLetterSince{From: d.From, Succeeded: d.Succeeded, Failed: d.Failed, Jobs: d.Jobs, More: d.More}
	}
	return out
}

// countDeadLetters answers a dry run.
func (s *Server) countDeadLetters(ctx context.Context, f job.DeadFilter) (*begunOrCountedOutput, error) {
	namespace := rest.Principal(ctx).Namespace
	count, more, err := s.opts.DeadLetters.CountDeadLetters(ctx, namespace, f)
	if err != nil {
		return nil, err
	}
	page, err := s.opts.DeadLetters.DeadLetters(
		ctx, job.DeadQuery{Namespace: namespace, DeadFilter: f, Limit: job.MaxDeadSample},
	)
	if err != nil {
		return nil, err
	}
	return &begunOrCountedOutput{Status: http.StatusOK, Body: DeadLetterCount{
		Count: count, More: more, Sample: rest.Map(page.Letters, wireDeadLetter),
	}}, nil
}
