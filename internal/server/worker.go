package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/cluster"
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
	aboutOpen = "A session represents a live worker process. Send a heartbeat before it expires, " +
		"or all its runs are lost and retried by others. " +
		"adopt names a session to replace: it ends, the new session gets those of its runs that are in runs, " +
		"and the others are lost. " +
		"If the response to a claim is lost, open a new session that adopts the runs you know; " +
		"the runs you do not know go to others at once. " +
		"It is safe to repeat the request if there was no response: " +
		"runs of a session whose id you never received are adopted too."
	aboutClaim = "Waits until there is a run for one of the handlers, ordered by priority and then by time. " +
		"The response may have fewer runs than max, and none if the wait ends first. " +
		"If there is no response, or one with a status of 500 or higher, runs may still have been claimed: " +
		"open a new session."
	aboutHeartbeat = "List the runs you still work on, with their progress if it has changed. " +
		"The response lists those that are no longer yours, so that you stop working on them."
	aboutComplete = "Each report is accepted, or rejected with a reason. " +
		"It is safe to repeat the request if there was no response: " +
		"a report that was accepted the first time is then rejected as reported."
)

func (s *Server) registerWorkers() {
	const (
		sessions = "/queues/{queue}/sessions"
		session  = sessions + "/{session}"
		tooLarge = "name fewer runs in one request, or shorten what is said of each"
	)
	rest.Register(s.api, rest.Operation{
		ID: "create-session", Route: "POST " + sessions, Summary: "Open a worker's session", Description: aboutOpen,
		Role: access.Worker, Status: http.StatusCreated, MaxBody: maxLeases, TooLarge: tooLarge,
		Example: `{"name":"invoices-7d9f"}`,
	}, s.openSession)
	rest.Register(s.api, rest.Operation{
		ID: "claim-runs", Route: "POST " + session + ":claim", Summary: "Claim runs that are due",
		Description: aboutClaim, Role: access.Worker, TooLarge: tooLarge,
		Example: `{"handlers":["invoice"],"max":10,"wait_ms":100}`,
	}, s.claimRuns)
	rest.Register(s.api, rest.Operation{
		ID: "heartbeat-session", Route: "POST " + session + ":heartbeat", Summary: "Keep a session alive",
		Description: aboutHeartbeat, Role: access.Worker, MaxBody: maxLeases, TooLarge: tooLarge,
		Example: `{"runs":[{"run":"` + exampleRun + `","attempt":1,"percent":40,"progress":"page 4 of 10"}]}`,
	}, s.beatSession)
	rest.Register(s.api, rest.Operation{
		ID: "complete-runs", Route: "POST " + session + ":complete", Summary: "Report the outcomes of runs",
		Description: aboutComplete, Role: access.Worker, TooLarge: tooLarge,
		Example: `{"reports":[{"run":"` + exampleRun + `","attempt":1,"outcome":"succeeded"}]}`,
	}, s.completeRuns)
	rest.Register(s.api, rest.Operation{
		ID: "delete-session", Route: "DELETE " + session, Summary: "End a session",
		Description: "Its remaining runs are lost and retried by others.",
		Role:        access.Worker, Status: http.StatusNoContent, TooLarge: tooLarge,
	}, s.endSession)
}

// SessionPath names a session.
type SessionPath struct {
	cluster.QueuePath
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
	Reason string `json:"reason" enum:"cancelled,timeout,reported,lost"`
	Detail string `json:"detail" doc:"The same in words."`
}

// Descriptions implements rest.Described.
func (GoneRun) Descriptions() map[string]string {
	return map[string]string{
		"reason": "cancelled: the run was cancelled. timeout: the attempt took too long. " +
			"reported: it has already been reported. lost: the run was given to another session.",
	}
}

func wireGone(g job.Gone) GoneRun {
	return GoneRun{Lease{job.FormatRunID(g.Key), g.Attempt}, string(g.Why), g.Why.Explain()}
}

// SessionRequest opens a session.
type SessionRequest struct {
	Name  string  `json:"name" minLength:"1" maxLength:"200" doc:"Name, for people." example:"invoices-7d9f"`
	Adopt string  `json:"adopt,omitempty" maxLength:"40" doc:"Session to end; of its runs, only those in runs are kept."`
	Runs  []Lease `json:"runs,omitempty" maxItems:"10000" doc:"With adopt: the runs that you still work on."`
	Slots int     `json:"slots,omitempty" minimum:"0" maximum:"100000" doc:"How many runs you work on at most, for people."`
}

type openSessionInput struct {
	cluster.QueuePath
	Body SessionRequest
}

// Session is the session of a worker.
type Session struct {
	ID              string    `json:"id" doc:"The session's id."`
	ExpiresAt       time.Time `json:"expires_at" doc:"By the database clock, unless a heartbeat renews it."`
	TTLMillis       int64     `json:"ttl_ms" doc:"How long the session lives after a heartbeat."`
	HeartbeatMillis int64     `json:"heartbeat_ms" doc:"How often to send a heartbeat."`
	Gone            []GoneRun `json:"gone" doc:"With adopt: runs that the new session did not get."`
}

type openSessionOutput struct {
	Body Session
}

// beatsPerTTL is how many heartbeats a worker sends in the lifetime of a session.
const beatsPerTTL = 3

func (s *Server) openSession(ctx context.Context, in *openSessionInput) (*openSessionOutput, error) {
	p := rest.Principal(ctx)
	params := job.SessionParams{
		Namespace: p.Namespace, Queue: in.Queue, Name: in.Body.Name, Make: p.Role == access.Worker, Actor: p.Actor(), Slots: in.Body.Slots,
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

// RunProgress is a run that a worker still works on.
type RunProgress struct {
	Lease
	Percent  *int16  `json:"percent,omitempty" minimum:"0" maximum:"100" doc:"Progress."`
	Progress *string `json:"progress,omitempty" maxLength:"500" doc:"Progress in words, for people."`
}

// HeartbeatRequest lists the runs that a worker still works on.
type HeartbeatRequest struct {
	Runs []RunProgress `json:"runs" maxItems:"10000" doc:"All runs that you still work on."`
}

type beatSessionInput struct {
	SessionPath
	Body HeartbeatRequest
}

// HeartbeatResult lists the runs that a worker must stop.
type HeartbeatResult struct {
	Gone []GoneRun `json:"gone" doc:"Runs that are no longer yours. Stop working on them."`
}

type beatSessionOutput struct {
	Body HeartbeatResult
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
