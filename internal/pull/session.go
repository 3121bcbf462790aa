package pull

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// heartbeatLimit is how long a heartbeat may take. A worker must learn in time that the database does not answer:
// without a reply it gives up its runs when its TTL has passed.
const heartbeatLimit = 3 * time.Second

// Sessions is the part of the database that keeps the sessions of workers.
type Sessions interface {
	OpenSession(ctx context.Context, o job.SessionParams) (job.WorkerSession, []job.Gone, error)
	WorkerSession(ctx context.Context, namespace uuid.UUID, queue string, id uuid.UUID) (job.WorkerSession, error)
	Heartbeat(
		ctx context.Context, w job.WorkerSession, ttl time.Duration, leases []job.Lease,
	) (time.Time, []job.Gone, error)
	EndSession(ctx context.Context, w job.WorkerSession) error
}

// HandlerNotes stores which handlers a worker claims runs for, so that users see what no worker asks for.
type HandlerNotes interface {
	NoteHandlers(ctx context.Context, w job.WorkerSession, handlers []string) error
}

// noteHandlers stores the handlers of a claim, unless this node knows that they are stored: once per session and node.
// A claim does not depend on it, so a failure is logged, and the next claim retries.
func (p *Puller) noteHandlers(ctx context.Context, w job.WorkerSession, handlers []string) {
	handlers = p.known.unstored(w, handlers)
	if p.Handlers == nil || len(handlers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatLimit)
	defer cancel()
	err := p.call(ctx, w.Namespace, func() error { return p.Handlers.NoteHandlers(ctx, w, handlers) })
	if err != nil {
		p.Log.WarnContext(ctx, "storing the handlers of a worker failed", "worker", w.Name, "error", err)
		return
	}
	p.known.stored(w, handlers)
}

// call sends a database call about a session when a slot is free. The slots are shared by namespaces, so however many
// requests the workers of one of them send, the heartbeats of the others are in time.
//
// If it waits in vain, it says why: workers keep their runs while the database does not answer, and must not if it
// does.
func (p *Puller) call(ctx context.Context, namespace uuid.UUID, send func() error) error {
	begun := clock.Elapsed()
	waiting, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	release, err := p.calls.take(waiting, namespace)
	if err == nil {
		defer release()
		err = send()
	}
	if errors.Is(err, context.DeadlineExceeded) && time.Duration(p.answered.Load()) > begun {
		return job.ErrTooManyWorkers
	}
	if err == nil || errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrSessionExpired) {
		p.answered.Store(int64(clock.Elapsed()))
	}
	return err
}

// callWait is how long a call waits for a slot. It is less than heartbeatLimit, so that time is left for the call.
const callWait = 2 * time.Second

// Open opens a session for a worker.
func (p *Puller) Open(ctx context.Context, o job.SessionParams) (job.OpenedSession, error) {
	o.TTL = p.TTL
	var w job.WorkerSession
	var gone []job.Gone
	err := p.call(ctx, o.Namespace, func() (err error) {
		w, gone, err = p.Sessions.OpenSession(ctx, o)
		return err
	})
	if err != nil {
		return job.OpenedSession{}, err
	}
	p.known.forget(o.Namespace, o.Adopt)
	p.known.add(w)
	return job.OpenedSession{WorkerSession: w, TTL: p.TTL, Gone: gone}, nil
}

// Heartbeat renews a session and returns those of its attempts that it no longer holds.
func (p *Puller) Heartbeat(ctx context.Context, at job.SessionPath, leases []job.Lease) (gone []job.Gone, err error) {
	ctx, cancel := context.WithTimeout(ctx, heartbeatLimit)
	defer cancel()
	w, err := p.session(ctx, at)
	if err != nil {
		return nil, err
	}
	err = p.call(ctx, w.Namespace, func() (err error) {
		_, gone, err = p.Sessions.Heartbeat(ctx, w, p.TTL, leases)
		return err
	})
	if errors.Is(err, job.ErrSessionExpired) {
		p.known.forget(at.Namespace, at.ID)
	}
	return gone, err
}

// End ends a session.
func (p *Puller) End(ctx context.Context, at job.SessionPath) error {
	w, err := p.session(ctx, at)
	if err != nil {
		return err
	}
	p.known.forget(at.Namespace, at.ID)
	return p.call(ctx, w.Namespace, func() error { return p.Sessions.EndSession(ctx, w) })
}

// session finds a session, and reads it from the database only once: its queue and namespace never change.
// Whether it has expired is checked by the statements that use it.
func (p *Puller) session(ctx context.Context, at job.SessionPath) (job.WorkerSession, error) {
	w, ok := p.known.get(at.Namespace, at.ID)
	if !ok {
		err := p.call(ctx, at.Namespace, func() (err error) {
			w, err = p.Sessions.WorkerSession(ctx, at.Namespace, at.Queue, at.ID)
			return err
		})
		if err != nil {
			return w, err
		}
		p.known.add(w)
	}
	if w.QueueName != at.Queue {
		return w, job.ErrNotFound
	}
	return w, nil
}
