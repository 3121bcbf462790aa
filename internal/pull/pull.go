package pull

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
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
	) (claimed *job.Claimed, done bool, err error)
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
}

// Limits of a node.
const (
	maxWaiting = 10_000 // long polls, divided among namespaces
	maxClaims  = 4      // transactions at the same time, over all queues
	// maxClaimsOf is how many of them one namespace has or waits for. Others wait for at most these few.
	maxClaimsOf = maxClaims - 1
	// claimLimit is the maximum duration of a database call. A call that it cuts off may have committed.
	claimLimit = 8 * time.Second
)

// Puller hands runs to workers and writes their reports. It is safe for concurrent use.
type Puller struct {
	Options
	mu          sync.Mutex
	queues      map[int32]*queue
	polls       *share.Pool // long polls
	scanning    bool
	stopped     bool
	sessions    map[uuid.UUID]job.WorkerSession // a cache
	noted       map[uuid.UUID][]string          // the handlers of sessions that are stored, a cache
	claimSlots  chan struct{}
	claimsOf    map[uuid.UUID]chan struct{} // by namespace
	wakeScan    chan struct{}
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
	return &Puller{
		Options: o, queues: map[int32]*queue{}, sessions: map[uuid.UUID]job.WorkerSession{},
		noted: map[uuid.UUID][]string{}, polls: share.New(maxWaiting), reports: newReports(),
		claimSlots: make(chan struct{}, maxClaims), claimsOf: map[uuid.UUID]chan struct{}{},
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
	poll := &longPoll{Poll: job.Poll{Session: w.ID, Handlers: o.Handlers, Max: o.Max}, reply: make(chan reply, 1)}
	q, err := p.enter(w, poll) //nolint:contextcheck // a claim serves many polls and outlives each of them
	if err != nil || q == nil {
		return nil, err
	}
	timer := time.NewTimer(o.Wait)
	defer timer.Stop()
	select {
	case r := <-poll.reply:
		return p.handOut(ctx, q, r, o.Check)
	case <-ctx.Done():
	case <-timer.C:
	}
	if p.leave(q, poll) {
		return nil, nil
	}
	r := <-poll.reply // a claim for it is under way, and may have leased runs to it
	if ctx.Err() != nil && len(r.runs) > 0 {
		p.returnClaimed(ctx, q, r.runs, "the worker disconnected before it received the run")
		return nil, ctx.Err()
	}
	return p.handOut(ctx, q, r, o.Check)
}

// handOut returns the runs of a reply, unless the worker may no longer have them.
func (p *Puller) handOut(ctx context.Context, q *queue, r reply, check func() error) ([]job.Claimed, error) {
	if check == nil || len(r.runs) == 0 {
		return r.runs, r.err
	}
	if err := check(); err != nil {
		p.returnClaimed(ctx, q, r.runs, "the worker's key was no longer valid when it was to receive the run")
		return nil, err
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

// enter adds a poll to its queue. It returns nil if the node is stopping.
func (p *Puller) enter(w job.WorkerSession, poll *longPoll) (*queue, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, nil
	}
	if p.polls.Take(w.Namespace, 1) != nil {
		return nil, job.ErrTooManyWorkers
	}
	q := p.queues[w.Queue]
	if q == nil {
		q = newQueue(p, w.Namespace, w.Queue)
		p.queues[w.Queue] = q
	}
	start, err := q.enter(poll)
	if err != nil {
		p.polls.Give(w.Namespace, 1)
		return nil, err
	}
	if start {
		go q.loop().Run(context.Background())
	}
	if !p.scanning {
		p.scanning = true
		go p.scanLoop().Run(context.Background())
	} else if q.anyUnknown(poll.Handlers) {
		signal(p.wakeScan)
	}
	return q, nil
}

// leave removes a poll from its queue. It returns false if a claim for the poll is under way.
func (p *Puller) leave(q *queue, poll *longPoll) bool {
	if !q.leave(poll) {
		return false
	}
	p.polls.Give(q.namespace, 1)
	return true
}

// claimSlot waits for the right to claim for a namespace, and returns how to release it.
func (p *Puller) claimSlot(namespace uuid.UUID) (release func()) {
	p.mu.Lock()
	own := p.claimsOf[namespace]
	if own == nil {
		own = make(chan struct{}, maxClaimsOf)
		p.claimsOf[namespace] = own
	}
	p.mu.Unlock()
	own <- struct{}{}
	p.claimSlots <- struct{}{}
	return func() { <-p.claimSlots; <-own }
}

// Wake claims in queues without waiting for the next scan, because runs were just written there that are due. It never
// blocks. A queue without polls claims for the next one. A queue at its limit waits for the scan, as for all its runs.
func (p *Puller) Wake(queues []int32) {
	for _, id := range queues {
		p.mu.Lock()
		q := p.queues[id]
		p.mu.Unlock()
		if q != nil {
			q.newRuns()
		}
	}
}

func (q *queue) newRuns() {
	q.mu.Lock()
	defer q.mu.Unlock()
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
