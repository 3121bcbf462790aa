package server

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

type claimRunsInput struct {
	SessionPath
	Body struct {
		Handlers   []string `json:"handlers" minItems:"1" maxItems:"100" doc:"The handlers that you know. Runs of others are left alone."`
		Max        int      `json:"max" minimum:"1" maximum:"100" doc:"At most so many runs: not more than you have room for."`
		WaitMillis int      `json:"wait_ms,omitempty" minimum:"0" maximum:"25000" doc:"How long to wait for the first one. 0: answer at once."`
	}
}

// ClaimedRun is an attempt that a worker has to make.
type ClaimedRun struct {
	Lease
	Key           string    `json:"idempotency_key" doc:"The same for all attempts, retries and redrives of the run."`
	Job           string    `json:"job" doc:"The id of its job."`
	JobName       string    `json:"job_name"`
	Handler       string    `json:"handler"`
	Origin        string    `json:"origin" enum:"schedule,trigger,backfill,missed,redrive"`
	DueAt         time.Time `json:"due_at" doc:"Its nominal time."`
	RunAt         time.Time `json:"run_at" doc:"When it might start."`
	ClaimedAt     time.Time `json:"claimed_at" doc:"Now, by the database's clock."`
	TimeoutMillis int64     `json:"timeout_ms" doc:"How long the attempt may take."`
	Version       int32     `json:"version" doc:"Of the job's definition, when the run was made."`
	Payload       rest.JSON `json:"payload,omitempty"`
}

func wireClaimed(r job.Claimed) ClaimedRun {
	return ClaimedRun{
		Lease: Lease{job.FormatRunID(r.Key), r.Number}, Key: r.IdempotencyKey(), Job: job.FormatJobID(r.Key.Job),
		JobName: r.JobName, Handler: r.Handler, Origin: originNames[r.Origin], DueAt: r.Key.DueAt.UTC(),
		RunAt: r.RunAt.UTC(), ClaimedAt: r.ClaimedAt.UTC(), TimeoutMillis: r.Timeout.Milliseconds(),
		Version: r.Version, Payload: rest.JSON(r.Payload),
	}
}

type claimRunsOutput struct {
	Body struct {
		Runs []ClaimedRun `json:"runs"`
	}
}

func (s *Server) claimRuns(ctx context.Context, in *claimRunsInput) (*claimRunsOutput, error) {
	path, err := in.path(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range in.Body.Handlers {
		if !job.ValidHandler(name) {
			return nil, &problem.Problem{
				Field: "handlers", Problem: "there is a text that is not the name of a handler",
				Fix: "use 1 to 100 letters, digits, '.', '_', ':', '/' and '-', beginning with a letter or digit",
			}
		}
	}
	runs, err := s.opts.Workers.Claim(rest.LongPoll(ctx), path, job.PullParams{
		Handlers: in.Body.Handlers, Max: in.Body.Max, Wait: time.Duration(in.Body.WaitMillis) * time.Millisecond,
	})
	if err != nil {
		return nil, sessionProblem(err)
	}
	out := &claimRunsOutput{}
	out.Body.Runs = rest.Map(runs, wireClaimed)
	return out, nil
}

// Report is the outcome of an attempt.
type Report struct {
	Lease
	Outcome          string    `json:"outcome" enum:"succeeded,failed,cancelled,snoozed" doc:"cancelled: there is no use in doing it. snoozed: not now; no attempt is used up."`
	Final            bool      `json:"final,omitempty" doc:"Of a failure: do not try again."`
	RetryAfterMillis int64     `json:"retry_after_ms,omitempty" minimum:"0" maximum:"2592000000" doc:"Of a failure: not earlier than that, at most a day. Of a snooze: after that, at most 30 days."`
	Message          string    `json:"message,omitempty" maxLength:"4096" doc:"What happened, for people."`
	Result           rest.JSON `json:"result,omitempty" doc:"Of a success: anything worth keeping, at most 16 kB. It is shown with the run."`
}

type completeRunsInput struct {
	SessionPath
	Body struct {
		Reports []Report `json:"reports" minItems:"1" maxItems:"1000"`
	}
}

// ReportAnswer is the response to one report.
type ReportAnswer struct {
	Lease
	Accepted bool   `json:"accepted"`
	Code     string `json:"code,omitempty" enum:"stale" doc:"stale: the attempt is not the session's, and nothing has changed."`
	Why      string `json:"why,omitempty" enum:"cancelled,timeout,reported,lost" doc:"reported: this attempt was reported before, perhaps by a request of which the answer was lost."`
	Detail   string `json:"detail,omitempty"`
}

type completeRunsOutput struct {
	Body struct {
		Answers []ReportAnswer `json:"answers" doc:"In the order of the reports."`
	}
}

func (s *Server) completeRuns(ctx context.Context, in *completeRunsInput) (*completeRunsOutput, error) {
	path, err := in.path(ctx)
	if err != nil {
		return nil, err
	}
	done := make([]job.Completion, len(in.Body.Reports))
	for i := range in.Body.Reports {
		if done[i], err = in.Body.Reports[i].completion(); err != nil {
			return nil, err
		}
	}
	why, err := s.opts.Workers.Complete(ctx, path, done)
	if err != nil {
		return nil, sessionProblem(err)
	}
	out := &completeRunsOutput{}
	out.Body.Answers = make([]ReportAnswer, len(why))
	for i, w := range why {
		a := ReportAnswer{Lease: in.Body.Reports[i].Lease, Accepted: w == ""}
		if w != "" {
			a.Code, a.Why, a.Detail = "stale", string(w), w.Explain()
		}
		out.Body.Answers[i] = a
	}
	return out, nil
}

var reportKinds = map[string]job.OutcomeKind{
	"succeeded": job.Succeeded, "failed": job.Failed, "cancelled": job.Cancelled, "snoozed": job.Snoozed,
}

func (r *Report) completion() (job.Completion, error) {
	l, err := r.lease()
	if err != nil {
		return job.Completion{}, err
	}
	if len(r.Result) > job.MaxResult {
		return job.Completion{}, &problem.Problem{
			Field: "result", Problem: "it has more than 16 kB", Fix: "store it elsewhere and report where it is",
		}
	}
	return job.Completion{Key: l.Key, Attempt: l.Attempt, Outcome: job.Outcome{
		Kind: reportKinds[r.Outcome], Retryable: !r.Final,
		RetryAfter: time.Duration(r.RetryAfterMillis) * time.Millisecond,
		Message:    job.Storable(r.Message, job.MaxMessage), Result: string(r.Result.Raw()),
	}}, nil
}
