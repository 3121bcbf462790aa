package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// Workers is who hands runs to workers, as the API sees it.
type Workers interface {
	Open(ctx context.Context, o job.SessionParams) (job.OpenedSession, error)
	Claim(ctx context.Context, at job.SessionPath, o job.PullParams) ([]job.Claimed, error)
	Heartbeat(ctx context.Context, at job.SessionPath, leases []job.Lease) ([]job.Gone, error)
	Complete(ctx context.Context, at job.SessionPath, done []job.Completion) ([]job.GoneReason, error)
	End(ctx context.Context, at job.SessionPath) error
}

// maxLeases is the largest body with 10,000 runs, each with its progress in a few words.
const maxLeases = 4 << 20

func (s *Server) registerWorkers() {
	const sessions = "/queues/{queue}/sessions"
	open := operation("open-session", http.MethodPost, sessions, "Open a worker's session", access.Worker)
	open.Description = "A session is a worker process that lives: it has to send a heartbeat before it expires, or all runs that it has are lost and tried again by others. " +
		"After a claim of which the answer was lost, open a new session that adopts the runs you know; those you do not know are given to others at once. " +
		"It may be asked again if there was no answer: what a session has that you never heard of is adopted too."
	open.DefaultStatus, open.MaxBodyBytes = http.StatusCreated, maxLeases
	huma.Register(s.api, open, s.openSession)
	claim := operation("claim-runs", http.MethodPost, sessions+"/{session}:claim", "Claim runs that are due", access.Worker)
	claim.Description = "Waits until there is a run for one of the handlers named, by priority and then by time. The answer may have fewer than max, and none when the wait is over. " +
		"Runs of other handlers are left alone. If there is no answer, or one with a status of 500 or more, runs may have been claimed all the same: open a new session."
	huma.Register(s.api, claim, s.claimRuns)
	beat := operation("beat-session", http.MethodPost, sessions+"/{session}:heartbeat", "Keep a session alive", access.Worker)
	beat.Description = "List the runs you still work on, with their progress if it has changed. The answer tells which of them are no longer yours, so that you stop working on them."
	beat.MaxBodyBytes = maxLeases
	huma.Register(s.api, beat, s.beatSession)
	complete := operation("complete-runs", http.MethodPost, sessions+"/{session}:complete", "Report what runs came to", access.Worker)
	complete.Description = "Each report is answered: accepted, or why not. It may be sent again if there was no answer; that it was accepted the first time is told."
	huma.Register(s.api, complete, s.completeRuns)
	end := operation("end-session", http.MethodDelete, sessions+"/{session}", "End a session", access.Worker)
	end.Description = "What it still has is lost and tried again by others."
	end.DefaultStatus = http.StatusNoContent
	huma.Register(s.api, end, s.endSession)
}

// SessionPath names a session.
type SessionPath struct {
	QueuePath
	Session string `path:"session" maxLength:"40" doc:"The session's id." example:"ses_06f8m2tq5dtk1e7n9q0c3s5v7g"`
}

var errNoSession = newProblem("not_found", "this queue has no such session: it has ended or expired, and the runs that it had were given to others; open a new one")

func (p *SessionPath) at(ctx context.Context) (job.SessionPath, error) {
	id, err := job.ParseSessionID(p.Session)
	if err != nil {
		return job.SessionPath{}, errNoSession
	}
	return job.SessionPath{Namespace: principal(ctx).Namespace, Queue: p.Queue, ID: id}, nil
}

// Lease is an attempt that a worker has.
type Lease struct {
	Run     string `json:"run" maxLength:"60" doc:"The run's id."`
	Attempt int16  `json:"attempt" minimum:"1" doc:"The number of the attempt."`
}

func (l *Lease) lease() (job.Lease, bool) {
	k, err := job.ParseRunID(l.Run)
	return job.Lease{Key: k, Attempt: l.Attempt}, err == nil
}

var errBadRun = &job.Problem{Field: "run", Problem: "there is an id that is not one of a run", Fix: "send the ids that claims have answered"}

// GoneRun is an attempt that is no longer the session's.
type GoneRun struct {
	Lease
	Why    string `json:"why" enum:"cancelled,timeout,reported,lost" doc:"cancelled: the run was cancelled. timeout: the attempt took too long. reported: it was reported before. lost: the run was given to another."`
	Detail string `json:"detail" doc:"The same in words."`
}

func wireGone(gone []job.Gone) []GoneRun {
	out := make([]GoneRun, len(gone))
	for i, g := range gone {
		out[i] = GoneRun{Lease{job.FormatRunID(g.Key), g.Attempt}, string(g.Why), g.Why.Explain()}
	}
	return out
}

type openSessionInput struct {
	QueuePath
	Body struct {
		Name  string  `json:"name" minLength:"1" maxLength:"200" doc:"The worker's name, for people." example:"invoices-7d9f"`
		Adopt string  `json:"adopt,omitempty" maxLength:"40" doc:"A session of yours that this one takes the place of. It ends, and of its runs those in runs are the new one's; the others are lost."`
		Runs  []Lease `json:"runs,omitempty" maxItems:"10000" doc:"With adopt: what you still work on."`
	}
}

type openSessionOutput struct {
	Body struct {
		ID              string    `json:"id" doc:"The session's id."`
		ExpiresAt       time.Time `json:"expires_at" doc:"By the database's clock, unless a heartbeat comes before."`
		TTLMillis       int64     `json:"ttl_ms" doc:"How long it lives after each heartbeat."`
		HeartbeatMillis int64     `json:"heartbeat_ms" doc:"How often to send one."`
		Gone            []GoneRun `json:"gone" doc:"With adopt: those of runs that the new session does not have."`
	}
}

// beatsOfTTL is how many heartbeats a session has in its life.
const beatsOfTTL = 3

func (s *Server) openSession(ctx context.Context, in *openSessionInput) (*openSessionOutput, error) {
	p := principal(ctx)
	o := job.SessionParams{Namespace: p.Namespace, Queue: in.Queue, Name: in.Body.Name, Make: p.Role == access.Worker, Runs: make([]job.Lease, len(in.Body.Runs))}
	for i := range in.Body.Runs {
		var ok bool
		if o.Runs[i], ok = in.Body.Runs[i].lease(); !ok {
			return nil, s.problem(ctx, errBadRun)
		}
	}
	if in.Body.Adopt != "" {
		var err error
		if o.Adopt, err = job.ParseSessionID(in.Body.Adopt); err != nil {
			return nil, s.problem(ctx, &job.Problem{Field: "adopt", Problem: "it is not the id of a session", Fix: "send the id that opening it has answered"})
		}
	}
	opened, err := s.opts.Workers.Open(ctx, o)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	out := &openSessionOutput{}
	out.Body.ID, out.Body.ExpiresAt, out.Body.Gone = job.FormatSessionID(opened.ID), opened.ExpiresAt.UTC(), wireGone(opened.Gone)
	out.Body.TTLMillis, out.Body.HeartbeatMillis = opened.TTL.Milliseconds(), (opened.TTL / beatsOfTTL).Milliseconds()
	return out, nil
}

type claimRunsInput struct {
	SessionPath
	Body struct {
		Handlers   []string `json:"handlers" minItems:"1" maxItems:"100" doc:"The handlers that you know. Runs of others are left alone."`
		Max        int      `json:"max" minimum:"1" maximum:"100" doc:"At most so many runs: not more than you have room for."`
		WaitMillis int      `json:"wait_ms,omitempty" minimum:"0" maximum:"25000" doc:"How long to wait for the first one. 0: answer at once."`
	}
}

// ClaimedRun is an attempt that a worker is to make.
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
	Payload       JSON      `json:"payload,omitempty"`
}

type claimRunsOutput struct {
	Body struct {
		Runs []ClaimedRun `json:"runs"`
	}
}

func (s *Server) claimRuns(ctx context.Context, in *claimRunsInput) (*claimRunsOutput, error) {
	at, err := in.at(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range in.Body.Handlers {
		if !job.ValidHandler(h) {
			return nil, s.problem(ctx, &job.Problem{Field: "handlers", Problem: "there is a text that is not the name of a handler", Fix: "use 1 to 100 letters, digits, '.', '_', ':', '/' and '-', beginning with a letter or digit"})
		}
	}
	client := recordOf(ctx).wait(ctx)
	runs, err := s.opts.Workers.Claim(client, at, job.PullParams{Handlers: in.Body.Handlers, Max: in.Body.Max, Wait: time.Duration(in.Body.WaitMillis) * time.Millisecond})
	if err != nil {
		return nil, s.sessionProblem(ctx, err)
	}
	out := &claimRunsOutput{}
	out.Body.Runs = make([]ClaimedRun, len(runs))
	for i, r := range runs {
		out.Body.Runs[i] = ClaimedRun{
			Lease: Lease{job.FormatRunID(r.Key), r.Number}, Key: r.IdempotencyKey(), Job: job.FormatJobID(r.Key.Job), JobName: r.JobName, Handler: r.Handler, Origin: originNames[r.Origin],
			DueAt: r.Key.DueAt.UTC(), RunAt: r.RunAt.UTC(), ClaimedAt: r.ClaimedAt.UTC(), TimeoutMillis: r.Timeout.Milliseconds(), Version: r.Version, Payload: JSON(r.Payload),
		}
	}
	return out, nil
}

// sessionProblem says of a session that is not there what to do.
func (s *Server) sessionProblem(ctx context.Context, err error) error {
	p := s.problem(ctx, err)
	if found, ok := p.(*Problem); ok && found.Code == "not_found" { //nolint:errorlint // problem returns no other
		return errNoSession
	}
	return p
}

type beatSessionInput struct {
	SessionPath
	Body struct {
		Runs []struct {
			Lease
			Percent  *int16  `json:"percent,omitempty" minimum:"0" maximum:"100" doc:"How far it has come."`
			Progress *string `json:"progress,omitempty" maxLength:"500" doc:"The same in words, for people."`
		} `json:"runs" maxItems:"10000" doc:"All that you still work on."`
	}
}

type beatSessionOutput struct {
	Body struct {
		Gone []GoneRun `json:"gone" doc:"Those that are no longer yours: stop working on them."`
	}
}

func (s *Server) beatSession(ctx context.Context, in *beatSessionInput) (*beatSessionOutput, error) {
	at, err := in.at(ctx)
	if err != nil {
		return nil, err
	}
	leases := make([]job.Lease, len(in.Body.Runs))
	for i := range in.Body.Runs {
		r := &in.Body.Runs[i]
		var ok bool
		if leases[i], ok = r.lease(); !ok {
			return nil, s.problem(ctx, errBadRun)
		}
		leases[i].Percent = r.Percent
		if r.Progress != nil {
			text := job.Storable(*r.Progress, job.MaxProgress)
			leases[i].Progress = &text
		}
	}
	gone, err := s.opts.Workers.Heartbeat(ctx, at, leases)
	if err != nil {
		return nil, s.sessionProblem(ctx, err)
	}
	out := &beatSessionOutput{}
	out.Body.Gone = wireGone(gone)
	return out, nil
}

// Report is what an attempt came to.
type Report struct {
	Lease
	Outcome          string `json:"outcome" enum:"succeeded,failed,cancelled,snoozed" doc:"cancelled: there is no use in doing it. snoozed: not now; no attempt is used up."`
	Final            bool   `json:"final,omitempty" doc:"Of a failure: do not try again."`
	RetryAfterMillis int64  `json:"retry_after_ms,omitempty" minimum:"0" maximum:"2592000000" doc:"Of a failure: not earlier than that, at most a day. Of a snooze: after that, at most 30 days."`
	Message          string `json:"message,omitempty" maxLength:"4096" doc:"What happened, for people."`
	Result           JSON   `json:"result,omitempty" doc:"Of a success: anything worth keeping, at most 16 kB. It is shown with the run."`
}

type completeRunsInput struct {
	SessionPath
	Body struct {
		Reports []Report `json:"reports" minItems:"1" maxItems:"1000"`
	}
}

// ReportAnswer is what became of a report.
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

var reportKinds = map[string]job.OutcomeKind{"succeeded": job.Succeeded, "failed": job.Failed, "cancelled": job.Cancelled, "snoozed": job.Snoozed}

func (s *Server) completeRuns(ctx context.Context, in *completeRunsInput) (*completeRunsOutput, error) {
	at, err := in.at(ctx)
	if err != nil {
		return nil, err
	}
	done := make([]job.Completion, len(in.Body.Reports))
	for i := range in.Body.Reports {
		if done[i], err = in.Body.Reports[i].completion(); err != nil {
			return nil, s.problem(ctx, err)
		}
	}
	why, err := s.opts.Workers.Complete(ctx, at, done)
	if err != nil {
		return nil, s.sessionProblem(ctx, err)
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

func (r *Report) completion() (job.Completion, error) {
	l, ok := r.lease()
	if !ok {
		return job.Completion{}, errBadRun
	}
	if len(r.Result) > job.MaxResult {
		return job.Completion{}, &job.Problem{Field: "result", Problem: "it has more than 16 kB", Fix: "store it elsewhere and report where it is"}
	}
	return job.Completion{Key: l.Key, Attempt: l.Attempt, Outcome: job.Outcome{
		Kind: reportKinds[r.Outcome], Retryable: !r.Final, RetryAfter: time.Duration(r.RetryAfterMillis) * time.Millisecond,
		Message: job.Storable(r.Message, job.MaxMessage), Result: string(null(r.Result)),
	}}, nil
}

func (s *Server) endSession(ctx context.Context, in *SessionPath) (*struct{}, error) {
	at, err := in.at(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.opts.Workers.End(ctx, at); err != nil {
		return nil, s.sessionProblem(ctx, err)
	}
	return nil, nil
}
