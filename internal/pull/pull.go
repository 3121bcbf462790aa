package pull

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/share"
)

// Store is the part of the database that claims runs for workers and writes their reports.
type Store interface {
	ScanDue(ctx context.Context, feeds []job.Feed, o job.ScanParams) (now time.Time, first []time.Time, err error)
	PullClaim(ctx context.Context, o job.PullClaimParams) (job.PullClaimResult, error)
	PullAdmit(
		ctx context.Context, namespace uuid.UUID, queue int32, session uuid.UUID, due job.Due,
	) (job.Admitted, error)
	// PullKeepKeys stores the idempotency keys of attempts that were claimed for workers of a queue.
	PullKeepKeys(ctx context.Context, namespace uuid.UUID, queue int32, attempts []*job.Attempt) error
	ResolveClaim(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error)
	CompletePulled(ctx context.Context, done []job.Completion) ([]job.Reported, error)
}

// Observer receives events for metrics.
type Observer interface {
	Started(queue int32, late time.Duration)
	Ended(queue int32, o job.Outcome, took time.Duration)
	Failed(loop string) // a round of a loop
}

type noObserver struct{}

func (noObserver) Started(int32, time.Duration)            {}
func (noObserver) Ended(int32, job.Outcome, time.Duration) {}
func (noObserver) Failed(string)                           {}

// Options of a Puller. Log and Observe may be nil.
type Options struct {
	Store    Store
	Sessions Sessions
	Handlers HandlerNotes // may be nil
	Bound    *clock.Bound
	TTL      time.Duration // of workers' sessions
	Log      *slog.Logger
	Observe  Observer
	// Connections is how many the pool of Store and Sessions has. Zero: enough for all limits.
	Connections int
}

// Limits of a node.
const (
	maxWaiting = 10_000 // long polls, divided among namespaces
	// maxClaims is how many transactions that claim are under way at the same time, over all queues: at most a quarter of
	// the connections.
	maxClaims = 4
	// maxCalls is how many calls about sessions are under way at the same time: at most half of the connections. The rest
	// is left to the engine and to reports.
	maxCalls  = 8
	idlePause = time.Second
	// claimLimit is the maximum duration of a database call. A call that it cuts off may have committed.
	claimLimit = 8 * time.Second
)

// Puller hands runs to workers and writes their reports. It is safe for concurrent use.
type Puller struct {
	Options
	mu          sync.Mutex
	queues      map[int32]*queue
	polls       *share.Pool                 // long polls
	handlers    *share.Pool                 // of all queues
	forgot      map[uuid.UUID]time.Duration // see forgetIdle; by namespace and clock.Elapsed
	scanning    bool
	stopped     bool
	known       *knownSessions
	claims      *slots       // of transactions that claim
	calls       *slots       // of database calls about sessions
	answered    atomic.Int64 // when the database last answered one, by clock.Elapsed
	wakeScan    chan struct{}
	lastDeep    uuid.UUID // of the scan: the namespace that had the last turn of scans that skip runs
	reports     reports
	undelivered undeliveredRuns
	counters    counters
}

// New returns a Puller. It starts no goroutine before the first worker connects.
func New(o Options) *Puller {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = noObserver{}
	}
	claims, calls := maxClaims, maxCalls
	if o.Connections > 0 {
		claims, calls = min(claims, max(o.Connections/4, 1)), min(calls, max(o.Connections/2, 1))
	}
	return &Puller{
		Options: o, queues: map[int32]*queue{}, forgot: map[uuid.UUID]time.Duration{}, known: newKnownSessions(),
		polls: share.New(maxWaiting), handlers: share.New(maxNodeHandlers), reports: newReports(),
		claims: newSlots(claims), calls: newSlots(calls),
		wakeScan:    make(chan struct{}, 1),
		undelivered: undeliveredRuns{unresolved: map[job.RunKey]int32{}},
	}
}

// longPoll is a worker's request that waits for runs.
type longPoll struct {
	job.Poll
	reply chan reply // has a buffer for the one reply that it gets
	// The lock of the queue guards the rest.
	claiming bool // a claim for it is under way
	timedOut bool // during that claim: the result of the claim is its reply, even if empty
	round    int  // the last round of the queue that claimed for it; 0: none yet
}

type reply struct {
	runs []job.Claimed
	err  error
}

// Claim waits up to o.Wait for runs that the worker can execute, and returns up to o.Max of them, or none.
// After an error it is unknown whether runs were leased to the session.
func (p *Puller) Claim(ctx context.Context, at job.SessionPath, o job.PullParams) ([]job.Claimed, error) {
	w, err := p.session(ctx, at)
	if err != nil {
		return nil, err
	}
	p.noteHandlers(ctx, w, o.Handlers)
	var gone <-chan struct{}
	if o.Waits != nil {
		ctx, gone = context.WithoutCancel(ctx), o.Waits()
	}
	poll := &longPoll{Poll: job.Poll{Session: w.ID, Handlers: o.Handlers, Max: o.Max}, reply: make(chan reply, 1)}
	q, err := p.enter(w, poll) //nolint:contextcheck // a claim serves many polls and outlives each of them
	if err != nil || q == nil {
		return nil, err
	}
	timer := time.NewTimer(o.Wait)
	defer timer.Stop()
	select {
	case r := <-poll.reply:
		if errors.Is(r.err, job.ErrSessionExpired) {
			p.known.forget(at.Namespace, at.ID)
		}
		return p.handOut(ctx, q, r, o.Check)
	case <-ctx.Done():
	case <-gone:
	case <-timer.C:
	}
	if p.leave(q, poll) {
		return nil, nil
	}
	r := <-poll.reply // a claim for it is under way, and may have leased runs to it
	if (ctx.Err() != nil || isClosed(gone)) && len(r.runs) > 0 {
		p.returnClaimed(ctx, q, r.runs, "the worker disconnected before it received the run")
		return nil, context.Canceled
	}
	return p.handOut(ctx, q, r, o.Check)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// handOut returns the runs of a reply, unless the worker may no longer have them.
func (p *Puller) handOut(ctx context.Context, q *queue, r reply, check func() error) ([]job.Claimed, error) {
	if check != nil && len(r.runs) > 0 {
		if err := check(); err != nil {
			p.returnClaimed(ctx, q, r.runs, "the worker's key was no longer valid when it was to receive the run")
			return nil, err
		}
	}
	for now, i := p.Bound.Now(), 0; i < len(r.runs); i++ {
		p.Observe.Started(r.runs[i].Queue, now.Sub(r.runs[i].RunAt))
	}
	return r.runs, r.err
}

// returnClaimed returns runs that their worker did not receive.
func (p *Puller) returnClaimed(ctx context.Context, q *queue, runs []job.Claimed, reason string) {
	back := make([]undelivered, len(runs))
	for i, r := range runs {
		back[i] = undelivered{job.Completion{
			Key: r.Key, Attempt: r.Number, Session: r.Session, Namespace: q.namespace, Queue: q.id,
			Outcome: notDelivered(reason),
		}, q.id}
	}
	p.returnNow(context.WithoutCancel(ctx), back)
}

// enter adds a poll to its queue. It returns nil if the node is stopping. It never waits for a queue with the lock of
// the node, because a claim of one queue must not keep the polls of others waiting.
func (p *Puller) enter(w job.WorkerSession, poll *longPoll) (*queue, error) {
	if p.polls.Take(w.Namespace, 1) != nil {
		return nil, job.ErrTooManyWorkers
	}
	for {
		q := p.queueOf(w)
		if q == nil {
			p.polls.Give(w.Namespace, 1)
			return nil, nil
		}
		entered, err := q.enter(poll)
		switch {
		case err != nil && p.forgetIdle(w.Namespace): // which makes space
			continue
		case err != nil:
			q.endUnserved()
			p.polls.Give(w.Namespace, 1)
			return nil, err
		case entered.closed: // meanwhile; a new queue takes its place, unless the node is stopping
			p.remove(q)
			continue
		case entered.first:
			go q.loop().Run(context.Background())
		}
		p.scan(entered.unknown)
		return q, nil
	}
}

// forgetIdle forgets the handlers of a namespace that no poll waits for, at most once per idlePause. It returns whether it
// did.
func (p *Puller) forgetIdle(namespace uuid.UUID) bool {
	now := clock.Elapsed()
	p.mu.Lock()
	maps.DeleteFunc(p.forgot, func(_ uuid.UUID, then time.Duration) bool { return now-then >= idlePause })
	if _, recently := p.forgot[namespace]; recently {
		p.mu.Unlock()
		return false
	}
	p.forgot[namespace] = now
	queues := p.allQueues()
	p.mu.Unlock()
	for _, q := range queues {
		if q.namespace == namespace {
			q.forgetIdle()
		}
	}
	return true
}

// queueOf returns the queue of a session; nil: the node is stopping.
func (p *Puller) queueOf(w job.WorkerSession) *queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	q := p.queues[w.Queue]
	if q == nil {
		q = newQueue(p, w.Namespace, w.Queue)
		p.queues[w.Queue] = q
	}
	return q
}

// remove forgets a queue that is closed.
func (p *Puller) remove(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queues[q.id] == q {
		delete(p.queues, q.id)
	}
}

// scan starts the scan for due runs for a new poll, or wakes it if the poll has feeds that were never scanned.
func (p *Puller) scan(unknown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.scanning {
		p.scanning = true
		go p.scanLoop().Run(context.Background())
	} else if unknown {
		signal(p.wakeScan)
	}
}

// leave removes a poll from its queue. It returns false if a claim for the poll is under way.
func (p *Puller) leave(q *queue, poll *longPoll) bool {
	if !q.leave(poll) {
		return false
	}
	p.polls.Give(q.namespace, 1)
	return true
}

// Wake claims in queues without waiting for the next scan, because runs were just written there that are due. It never
// blocks. A queue without polls claims for the next one. A queue at its limit waits for the scan, as for all its runs.
// Workers may already have got later runs than the late ones, whose time each queue contains as in job.Wake.
func (p *Puller) Wake(queues map[int32]int64) {
	for id, since := range queues {
		p.mu.Lock()
		q := p.queues[id]
		p.mu.Unlock()
		if q != nil {
			q.newRuns(since)
		}
	}
}

func (q *queue) newRuns(since int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if since != 0 {
		q.late++
		for _, f := range q.feeds {
			f.mark = earlier(f.mark, time.Unix(since, 0))
		}
	}
	if !q.atLimit {
		q.setClaimable()
	}
}

// signal wakes the goroutine that waits on a channel with a buffer of one signal.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Stop replies to all polls with no runs and accepts no new ones, because the node is stopping and workers
// get their next run from another one. Reports are still written.
func (p *Puller) Stop() {
	p.mu.Lock()
	p.stopped = true
	queues := p.allQueues()
	p.mu.Unlock()
	for _, q := range queues {
		p.polls.Give(q.namespace, int64(q.dismiss()))
	}
	signal(p.wakeScan)
}

func (p *Puller) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// allQueues lists the queues. The caller holds the lock.
func (p *Puller) allQueues() []*queue {
	return slices.Collect(maps.Values(p.queues))
}
