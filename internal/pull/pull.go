package pull

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// Store is the database, as workers' claims and reports see it.
type Store interface {
	LookDue(ctx context.Context, lanes []job.Feed, o job.PollParams) (now time.Time, first []time.Time, err error)
	ClaimDue(ctx context.Context, o job.PullClaimParams) (job.PullClaimResult, error)
	AdmitDue(ctx context.Context, queue int32, session uuid.UUID, due job.Due) (claimed *job.Claimed, done bool, err error)
	Claimed(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error)
	CompletePulled(ctx context.Context, done []job.Completion) ([]job.GoneReason, error)
}

// Sessions is the database, as the sessions of workers see it.
type Sessions interface {
	OpenSession(ctx context.Context, o job.SessionParams) (job.WorkerSession, []job.Gone, error)
	WorkerSession(ctx context.Context, namespace uuid.UUID, queue string, id uuid.UUID) (job.WorkerSession, error)
	Heartbeat(ctx context.Context, w job.WorkerSession, ttl time.Duration, leases []job.Lease) (time.Time, []job.Gone, error)
	EndSession(ctx context.Context, w job.WorkerSession) error
}

// Observer is told what happens, for metrics.
type Observer interface {
	Started(late time.Duration)
	Ended(o job.Outcome)
}

type nobody struct{}

func (nobody) Started(time.Duration) {}
func (nobody) Ended(job.Outcome)     {}

// Options of a Puller.
type Options struct {
	Store    Store
	Sessions Sessions
	Bound    *clock.Bound
	TTL      time.Duration // of workers' sessions
	Log      *slog.Logger
	Observe  Observer // nil: nobody
}

// The limits of a node.
const (
	maxWaiting  = 10_000 // long polls
	maxSessions = 50_000 // known ones
	// claimLimit bounds one claim. What is cut off may have been committed: its
	// workers are told so, and open new sessions.
	claimLimit = 8 * time.Second
	claimers   = 4 // transactions at once
)

// Puller hands runs to workers and takes their reports. Safe for concurrent use.
type Puller struct {
	Options
	mu      sync.Mutex
	queues  map[int32]*queue
	waiting int
	looking bool
	stopped bool
	known   map[uuid.UUID]job.WorkerSession
	slots   chan struct{}
	wake    chan struct{} // ends the looker's pause
	reports reports
	debts   debts
	counts  counts
}

// New makes a Puller.
func New(o Options) *Puller {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = nobody{}
	}
	return &Puller{
		Options: o, queues: map[int32]*queue{}, known: map[uuid.UUID]job.WorkerSession{},
		slots: make(chan struct{}, claimers), wake: make(chan struct{}, 1), debts: debts{doubtful: map[runKey]int32{}},
	}
}

// session finds a session. What is known of one never changes, so it is asked
// for once; that it has expired shows in what it is used for.
func (p *Puller) session(ctx context.Context, at job.SessionPath) (job.WorkerSession, error) {
	p.mu.Lock()
	w, ok := p.known[at.ID]
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
	if len(p.known) >= maxSessions {
		clear(p.known)
	}
	p.known[w.ID] = w
}

func (p *Puller) forget(id uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, id)
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

// Heartbeat renews a session and tells which of its attempts are no longer its own.
func (p *Puller) Heartbeat(ctx context.Context, at job.SessionPath, leases []job.Lease) ([]job.Gone, error) {
	w, err := p.session(ctx, at)
	if err != nil {
		return nil, err
	}
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

// waiter is a long poll.
type waiter struct {
	seeker job.Poll
	// got is given what the poll is answered with, once.
	got         chan answer
	taken, over bool // a claim for it is under way; and its time is up. Of the queue
	asked       int  // in which round of the queue; 0: in none yet
}

type answer struct {
	runs []job.Claimed
	err  error
}

// Claim waits until there is a run for a worker, or for so long. Up to o.Max
// are returned; none: there was none. After an error it is not known whether
// some were leased to the session.
func (p *Puller) Claim(ctx context.Context, at job.SessionPath, o job.PullParams) ([]job.Claimed, error) {
	w, err := p.session(ctx, at)
	if err != nil {
		return nil, err
	}
	poll := &waiter{seeker: job.Poll{Session: w.ID, Handlers: o.Handlers, Max: o.Max}, got: make(chan answer, 1)}
	q, err := p.enter(w.Queue, poll) //nolint:contextcheck // claims are for all who wait, and outlive each of them
	if err != nil || q == nil {
		return nil, err
	}
	timer := time.NewTimer(o.Wait)
	defer timer.Stop()
	select {
	case a := <-poll.got:
		return a.runs, a.err
	case <-ctx.Done():
	case <-timer.C:
	}
	if p.leave(q, poll) {
		return nil, nil
	}
	a := <-poll.got // a claim is under way: what it brings must not be lost
	if ctx.Err() != nil && len(a.runs) > 0 {
		p.giveBack(q.id, a.runs) //nolint:contextcheck // this one is over
		return nil, ctx.Err()
	}
	return a.runs, a.err
}

// giveBack returns runs whose worker went away before it got them.
func (p *Puller) giveBack(queue int32, runs []job.Claimed) {
	back := make([]debt, len(runs))
	for i, r := range runs {
		back[i] = debt{job.Completion{Key: r.Key, Attempt: r.Number, Session: r.Session, Outcome: untold("the worker went away before it got the run")}, queue}
	}
	p.settleNow(back)
}

// enter puts a poll into its queue's line; nil: the node is stopping.
func (p *Puller) enter(id int32, poll *waiter) (*queue, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, nil
	}
	if p.waiting >= maxWaiting {
		return nil, job.ErrTooManyWorkers
	}
	q := p.queues[id]
	if q == nil {
		q = newQueue(p, id)
		p.queues[id] = q
	}
	begin, err := q.enter(poll)
	if err != nil {
		return nil, err
	}
	p.waiting++
	if begin {
		go q.serve()
	}
	if !p.looking {
		p.looking = true
		go p.look()
	}
	p.poke()
	return q, nil
}

// leave takes a poll out of the line; false: a claim for it is under way.
func (p *Puller) leave(q *queue, poll *waiter) bool {
	if !q.leave(poll) {
		return false
	}
	p.left(1)
	return true
}

func (p *Puller) left(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting -= n
}

// poke ends the looker's pause.
func (p *Puller) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Stop answers all who wait, with nothing, and lets nobody wait any more: the
// node is stopping, and another one has the next run. Reports are still taken.
func (p *Puller) Stop() {
	p.mu.Lock()
	p.stopped = true
	queues := make([]*queue, 0, len(p.queues))
	for _, q := range p.queues {
		queues = append(queues, q)
	}
	p.mu.Unlock()
	for _, q := range queues {
		p.left(q.dismiss())
	}
	p.poke()
}
