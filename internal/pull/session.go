package pull

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// maxSessions is how many sessions of workers a node caches.
const maxSessions = 50_000

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
	p.mu.Lock()
	known := p.noted[w.ID]
	p.mu.Unlock()
	if p.Handlers == nil || containsAll(known, handlers) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatLimit)
	defer cancel()
	if err := p.Handlers.NoteHandlers(ctx, w, handlers); err != nil {
		p.Log.WarnContext(ctx, "storing the handlers of a worker failed", "worker", w.Name, "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.noted) >= maxSessions {
		clear(p.noted)
	}
	p.noted[w.ID] = append(slices.Clone(known), handlers...)
}

func containsAll(set, wanted []string) bool {
	for _, w := range wanted {
		if !slices.Contains(set, w) {
			return false
		}
	}
	return true
}

// Open opens a session for a worker.
func (p *Puller) Open(ctx context.Context, o job.SessionParams) (job.OpenedSession, error) {
	o.TTL = p.TTL
	w, gone, err := p.Sessions.OpenSession(ctx, o)
	if err != nil {
		return job.OpenedSession{}, err
	}
	p.forget(o.Adopt)
	p.remember(w)
	return job.OpenedSession{WorkerSession: w, TTL: p.TTL, Gone: gone}, nil
}

// Heartbeat renews a session and returns those of its attempts that it no longer holds.
func (p *Puller) Heartbeat(ctx context.Context, at job.SessionPath, leases []job.Lease) ([]job.Gone, error) {
	w, err := p.session(ctx, at)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatLimit)
	defer cancel()
	_, gone, err := p.Sessions.Heartbeat(ctx, w, p.TTL, leases)
	if errors.Is(err, job.ErrSessionExpired) {
		p.forget(at.ID)
	}
	return gone, err
}

// End ends a session.
func (p *Puller) End(ctx context.Context, at job.SessionPath) error {
	w, err := p.session(ctx, at)
	if err != nil {
		return err
	}
	p.forget(at.ID)
	return p.Sessions.EndSession(ctx, w)
}

// session finds a session, and reads it from the database only once: its queue and namespace never change.
// Whether it has expired is checked by the statements that use it.
func (p *Puller) session(ctx context.Context, at job.SessionPath) (job.WorkerSession, error) {
	p.mu.Lock()
	w, ok := p.sessions[at.ID]
	p.mu.Unlock()
	if !ok {
		var err error
		if w, err = p.Sessions.WorkerSession(ctx, at.Namespace, at.Queue, at.ID); err != nil {
			return w, err
		}
		p.remember(w)
	}
	if w.Namespace != at.Namespace || w.QueueName != at.Queue {
		return w, job.ErrNotFound
	}
	return w, nil
}

func (p *Puller) remember(w job.WorkerSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sessions) >= maxSessions {
		clear(p.sessions)
	}
	p.sessions[w.ID] = w
}

func (p *Puller) forget(id uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, id)
	delete(p.noted, id)
}
