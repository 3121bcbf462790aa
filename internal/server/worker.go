package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Workers hands runs to workers and takes their reports.
type Workers interface {
	Open(ctx context.Context, o job.SessionParams) (job.OpenedSession, error)
	Claim(ctx context.Context, at job.SessionPath, o job.PullParams) ([]job.Claimed, error)
	Heartbeat(ctx context.Context, at job.SessionPath, leases []job.Lease) ([]job.Gone, error)
	Complete(ctx context.Context, at job.SessionPath, done []job.Completion) ([]job.GoneReason, error)
	End(ctx context.Context, at job.SessionPath) error
}

const (
	// maxLeases is the largest body with 10,000 runs, each with its progress in a few words.
	maxLeases  = 4 << 20
	exampleRun = "run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000"
)

const (
	aboutOpen = "A session is a worker process that lives: it has to send a heartbeat before it expires, " +
		"or all runs that it has are lost and tried again by others. " +
		"After a claim of which the answer was lost, open a new session that adopts the runs you know; " +
		"those you do not know are given to others at once. " +
		"It may be asked again if there was no answer: what a session has that you never heard of is adopted too."
	aboutClaim = "Waits until there is a run for one of the handlers named, by priority and then by time. " +
		"The answer may have fewer than max, and none when the wait is over. Runs of other handlers are left alone. " +
		"If there is no answer, or one with a status of 500 or more, runs may have been claimed all the same: " +
		"open a new session."
	aboutHeartbeat = "List the runs you still work on, with their progress if it has changed. " +
		"The answer tells which of them are no longer yours, so that you stop working on them."
	aboutComplete = "Each report is answered: accepted, or why not. " +
		"It may be sent again if there was no answer; that it was accepted the first time is told."
)

func (s *Server) registerWorkers() {
	const (
		sessions = "/queues/{queue}/sessions"
		session  = sessions + "/{session}"
		tooLarge = "name fewer runs in one request, or shorten what is said of each"
	)
	rest.Register(s.api, rest.Operation{
		ID: "open-session", Route: "POST " + sessions, Summary: "Open a worker's session", Description: aboutOpen,
		Role: access.Worker, Status: http.StatusCreated, MaxBody: maxLeases, TooLarge: tooLarge,
		Example: `{"name":"invoices-7d9f"}`,
	}, s.openSession)
	rest.Register(s.api, rest.Operation{
		ID: "claim-runs", Route: "POST " + session + ":claim", Summary: "Claim runs that are due",
		Description: aboutClaim, Role: access.Worker, TooLarge: tooLarge,
		Example: `{"handlers":["invoice"],"max":10,"wait_ms":100}`,
	}, s.claimRuns)
	rest.Register(s.api, rest.Operation{
		ID: "beat-session", Route: "POST " + session + ":heartbeat", Summary: "Keep a session alive",
		Description: aboutHeartbeat, Role: access.Worker, MaxBody: maxLeases, TooLarge: tooLarge,
		Example: `{"runs":[{"run":"` + exampleRun + `","attempt":1,"percent":40,"progress":"page 4 of 10"}]}`,
	}, s.beatSession)
	rest.Register(s.api, rest.Operation{
		ID: "complete-runs", Route: "POST " + session + ":complete", Summary: "Report what runs came to",
		Description: aboutComplete, Role: access.Worker, TooLarge: tooLarge,
		Example: `{"reports":[{"run":"` + exampleRun + `","attempt":1,"outcome":"succeeded"}]}`,
	}, s.completeRuns)
	rest.Register(s.api, rest.Operation{
		ID: "end-session", Route: "DELETE " + session, Summary: "End a session",
		Description: "What it still has is lost and tried again by others.",
		Role:        access.Worker, Status: http.StatusNoContent, TooLarge: tooLarge,
	}, s.endSession)
}

// SessionPath names a session.
type SessionPath struct {
	QueuePath
	Session string `path:"session" maxLength:"40" doc:"The session's id." example:"ses_06f8m2tq5dtk1e7n9q0c3s5v7g"`
}

// noSession returns a new problem each time, because each response adds its own request id.
func noSession() *rest.Problem {
	return rest.NewProblem("not_found", "this queue has no such session: it has ended or expired, "+
		"and the runs that it had were given to others; open a new one")
}

func (p *SessionPath) path(ctx context.Context) (job.SessionPath, error) {
	id, err := job.ParseSessionID(p.Session)
	if err != nil {
		return job.SessionPath{}, noSession()
	}
	return job.SessionPath{Namespace: rest.Principal(ctx).Namespace, Queue: p.Queue, ID: id}, nil
}

// sessionProblem says what to do about a session that does not exist.
func sessionProblem(err error) error {
	if errors.Is(err, job.ErrNotFound) {
		return noSession()
	}
	return err
}

// Lease is an attempt that a worker has.
type Lease struct {
	Run     string `json:"run" maxLength:"60" doc:"The run's id."`
	Attempt int16  `json:"attempt" minimum:"1" doc:"The number of the attempt."`
}

func (l *Lease) lease() (job.Lease, error) {
	k, err := job.ParseRunID(l.Run)
	if err != nil {
		return job.Lease{}, &problem.Problem{
			Field: "run", Problem: "there is an id that is not one of a run",
			Fix: "send the ids that claims have answered",
		}
	}
	return job.Lease{Key: k, Attempt: l.Attempt}, nil
}

// GoneRun is an attempt that the session no longer has.
type GoneRun struct {
	Lease
	Why    string `json:"why" enum:"cancelled,timeout,reported,lost" doc:"cancelled: the run was cancelled. timeout: the attempt took too long. reported: it was reported before. lost: the run was given to another."`
	Detail string `json:"detail" doc:"The same in words."`
}

func wireGone(g job.Gone) GoneRun {
	return GoneRun{Lease{job.FormatRunID(g.Key), g.Attempt}, string(g.Why), g.Why.Explain()}
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

// beatsPerTTL is how many heartbeats a worker sends in the lifetime of a session.
const beatsPerTTL = 3

func (s *Server) openSession(ctx context.Context, in *openSessionInput) (*openSessionOutput, error) {
	p := rest.Principal(ctx)
	params := job.SessionParams{
		Namespace: p.Namespace, Queue: in.Queue, Name: in.Body.Name, Make: p.Role == access.Worker,
		Runs: make([]job.Lease, len(in.Body.Runs)),
	}
	var err error
	for i := range in.Body.Runs {
		if params.Runs[i], err = in.Body.Runs[i].lease(); err != nil {
			return nil, err
		}
	}
	if in.Body.Adopt != "" {
		if params.Adopt, err = job.ParseSessionID(in.Body.Adopt); err != nil {
			return nil, &problem.Problem{
				Field: "adopt", Problem: "it is not the id of a session",
				Fix: "send the id that opening it has answered",
			}
		}
	}
	opened, err := s.opts.Workers.Open(ctx, params)
	if err != nil {
		return nil, err
	}
	out := &openSessionOutput{}
	b := &out.Body
	b.ID, b.ExpiresAt, b.Gone = job.FormatSessionID(opened.ID), opened.ExpiresAt.UTC(), rest.Map(opened.Gone, wireGone)
	b.TTLMillis, b.HeartbeatMillis = opened.TTL.Milliseconds(), (opened.TTL / beatsPerTTL).Milliseconds()
	return out, nil
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
	path, err := in.path(ctx)
	if err != nil {
		return nil, err
	}
	leases := make([]job.Lease, len(in.Body.Runs))
	for i := range in.Body.Runs {
		r := &in.Body.Runs[i]
		if leases[i], err = r.lease(); err != nil {
			return nil, err
		}
		leases[i].Percent = r.Percent
		if r.Progress != nil {
			text := job.Storable(*r.Progress, job.MaxProgress)
			leases[i].Progress = &text
		}
	}
	gone, err := s.opts.Workers.Heartbeat(ctx, path, leases)
	if err != nil {
		return nil, sessionProblem(err)
	}
	out := &beatSessionOutput{}
	out.Body.Gone = rest.Map(gone, wireGone)
	return out, nil
}

func (s *Server) endSession(ctx context.Context, in *SessionPath) (*struct{}, error) {
	path, err := in.path(ctx)
	if err != nil {
		return nil, err
	}
	return nil, sessionProblem(s.opts.Workers.End(ctx, path))
}
