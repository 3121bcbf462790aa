package server

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/trace"
)

// ClaimRequest asks for runs.
type ClaimRequest struct {
	Handlers   []string `json:"handlers" minItems:"1" maxItems:"100" doc:"You get only runs of these handlers."`
	Max        int      `json:"max" minimum:"1" maximum:"100" doc:"Maximum number of runs: your free capacity."`
	WaitMillis int      `json:"wait_ms,omitempty" minimum:"0" maximum:"25000" doc:"Time to wait for a run. 0: none."`
}

type claimRunsInput struct {
	SessionPath
	Body ClaimRequest
}

// ClaimedRun is an attempt that a worker has to make.
type ClaimedRun struct {
	Lease
	Key           string    `json:"idempotency_key" doc:"The same for all attempts, retries and redrives of the run."`
	Job           string    `json:"job" doc:"The id of its job."`
	JobName       string    `json:"job_name"`
	Handler       string    `json:"handler"`
	Origin        Origin    `json:"origin"`
	DueAt         time.Time `json:"due_at" doc:"The scheduled time."`
	RunAt         time.Time `json:"run_at" doc:"When it was allowed to start."`
	ClaimedAt     time.Time `json:"claimed_at" doc:"The current time of the database clock."`
	TimeoutMillis int64     `json:"timeout_ms" doc:"Maximum duration of the attempt."`
	Version       int32     `json:"version" doc:"Version of the job's definition that the run was created with."`
	Payload       rest.JSON `json:"payload,omitempty"`
	Traceparent   string    `json:"traceparent" doc:"W3C trace context of the attempt, for spans of the worker."`
}

func (s *Server) wireClaimed(r job.Claimed) ClaimedRun {
	r.Unsampled = s.opts.Sampled != nil && !s.opts.Sampled(r.Key, r.Trace)
	return ClaimedRun{
		Lease: Lease{job.FormatRunID(r.Key), r.Number}, Key: r.IdempotencyKey(), Job: job.FormatJobID(r.Key.Job),
		JobName: r.JobName, Handler: r.Handler, Origin: Origin(job.OriginNames[r.Origin]), DueAt: r.Key.DueAt.UTC(),
		RunAt: r.RunAt.UTC(), ClaimedAt: r.ClaimedAt.UTC(), TimeoutMillis: r.Timeout.Milliseconds(),
		Version: r.Version, Payload: rest.JSON(r.Payload), Traceparent: trace.Parent(&r.Attempt),
	}
}

// ClaimResult lists the claimed runs.
type ClaimResult struct {
	Runs []ClaimedRun `json:"runs"`
}

type claimRunsOutput struct {
	Body ClaimResult
}

func (s *Server) claimRuns(ctx context.Context, in *claimRunsInput) (*claimRunsOutput, error) {
	path, err := in.path(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range in.Body.Handlers {
		if !job.ValidHandler(name) {
			return nil, &problem.Problem{
				Field: "handlers", Problem: "a value is not the name of a handler",
				Fix: "use 1 to 100 letters, digits, '.', '_', ':', '/' and '-', beginning with a letter or digit",
			}
		}
	}
	runs, err := s.opts.Workers.Claim(ctx, path, job.PullParams{
		Handlers: in.Body.Handlers, Max: in.Body.Max, Wait: time.Duration(in.Body.WaitMillis) * time.Millisecond,
		Waits: func() <-chan struct{} { return rest.LongPoll(ctx).Done() },
		Check: func() error { return rest.CheckKey(ctx) },
	})
	if err != nil {
		return nil, sessionProblem(err)
	}
	out := &claimRunsOutput{}
	out.Body.Runs = rest.Map(runs, s.wireClaimed)
	return out, nil
}

// Report is the outcome of an attempt.
type Report struct {
	Lease
	Outcome          string    `json:"outcome" enum:"succeeded,failed,cancelled,snoozed"`
	Final            bool      `json:"final,omitempty" doc:"Of a failure: do not retry."`
	RetryAfterMillis int64     `json:"retry_after_ms,omitempty" minimum:"0" maximum:"2592000000"`
	Message          string    `json:"message,omitempty" maxLength:"4096" doc:"What happened, for people."`
	Result           rest.JSON `json:"result,omitempty" doc:"Of a success: any JSON, at most 16 kB."`
}

// Descriptions implements rest.Described.
func (Report) Descriptions() map[string]string {
	return map[string]string{
		"outcome": "cancelled: the work is no longer needed. " +
			"snoozed: run it later; it does not count as an attempt.",
		"retry_after_ms": "Of a failure: minimum delay, at most a day. Of a snooze: delay, at most 30 days.",
	}
}

// CompleteRequest reports on runs.
type CompleteRequest struct {
	Reports []Report `json:"reports" minItems:"1" maxItems:"1000"`
}

type completeRunsInput struct {
	SessionPath
	Body CompleteRequest
}

// ReportResult is the response to one report.
type ReportResult struct {
	Lease
	Accepted bool   `json:"accepted"`
	Code     string `json:"code,omitempty" enum:"stale" doc:"stale: not an attempt of this session; nothing changed."`
	Reason   string `json:"reason,omitempty" enum:"cancelled,timeout,reported,lost" doc:"reported: accepted before."`
	Detail   string `json:"detail,omitempty"`
}

// CompleteResult answers reports.
type CompleteResult struct {
	Results []ReportResult `json:"results" doc:"In the order of the reports."`
}

type completeRunsOutput struct {
	Body CompleteResult
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
	out.Body.Results = make([]ReportResult, len(why))
	for i, w := range why {
		a := ReportResult{Lease: in.Body.Reports[i].Lease, Accepted: w == ""}
		if w != "" {
			a.Code, a.Reason, a.Detail = "stale", string(w), w.Explain()
		}
		out.Body.Results[i] = a
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
