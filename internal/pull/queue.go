package pull

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

const (
	gatherPause = time.Millisecond // how long a claim waits for more polls
	keepQueue   = time.Minute      // how long a queue without polls is remembered
)

// queue is a queue that workers of this node wait for. One loop claims for all its polls.
type queue struct {
	puller    *Puller
	namespace uuid.UUID
	id        int32
	wake      chan struct{} // wakes the loop

	// Of the loop.
	tried  bool          // the last round claimed
	served time.Duration // when the last claim ended, by clock.Elapsed

	lastScan time.Duration // of the scan: when the queue had its last turn, by clock.Elapsed

	mu    sync.Mutex
	polls []*longPoll // a poll moves to the end after each claim for it
	feeds map[feedKey]*feed
	// late counts the wake-ups about late runs; lateScan is its value when the last scan began.
	late, lateScan int
	// handlers counts the polls that wait for each handler that has feeds. Handlers without polls are idle.
	handlers map[string]int
	idle     map[string]bool

	blocked map[job.RunKey]*blockedRun
	keys    map[job.RunKey]job.Limit // the concurrency keys of runs that this node has claimed
	// claimable says that there may be runs to claim; claimableIn is the round in which that became so.
	claimable   bool
	claimableIn int
	rounds      int  // claims so far
	atLimit     bool // the last claim left runs that exceed the queue's limit
	serving     bool
	closed      bool // it takes no more polls
}

func newQueue(p *Puller, namespace uuid.UUID, id int32) *queue {
	return &queue{
		puller: p, namespace: namespace, id: id, wake: make(chan struct{}, 1), served: clock.Elapsed(),
		feeds: map[feedKey]*feed{}, handlers: map[string]int{}, idle: map[string]bool{},
		blocked: map[job.RunKey]*blockedRun{}, keys: map[job.RunKey]job.Limit{},
	}
}

// entered is what a poll has found in its queue.
type entered struct {
	closed  bool // the poll was not added
	first   bool // the caller has to start the loop
	unknown bool // some feeds of the poll were never scanned
}

// enter adds a poll.
func (q *queue) enter(p *longPoll) (e entered, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return entered{closed: true}, nil
	}
	if !q.addHandlers(p.Handlers) {
		return e, job.ErrTooManyHandlers
	}
	q.polls = append(q.polls, p)
	e.first, q.serving = !q.serving, true
	if q.claimable {
		signal(q.wake)
	}
	e.unknown = q.anyUnknown(p.Handlers)
	return e, nil
}

// leave removes a poll. It returns false if a claim for the poll is under way, or has replied to it.
func (q *queue) leave(p *longPoll) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.claiming {
		p.timedOut = true
		return false
	}
	i := slices.Index(q.polls, p)
	if i < 0 {
		return false
	}
	q.polls = slices.Delete(q.polls, i, i+1)
	q.removeHandlers(p.Handlers)
	return true
}

// dismiss closes the queue and replies to all polls that no claim is under way for, with no runs. It returns how many
// these were.
func (q *queue) dismiss() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.polls = slices.DeleteFunc(q.polls, func(p *longPoll) bool {
		if p.claiming {
			return false
		}
		q.removeHandlers(p.Handlers)
		p.reply <- reply{}
		n++
		return true
	})
	signal(q.wake)
	return n
}

// setClaimable has the loop claim until it has claimed once for each poll. The caller holds the lock.
func (q *queue) setClaimable() {
	q.claimable, q.claimableIn = true, q.rounds
	signal(q.wake)
}

// setClaimableAt calls setClaimable when a run is due, if that is before the next scan. The caller holds
// the lock.
func (q *queue) setClaimableAt(due time.Time) {
	wait := q.puller.Bound.Until(due)
	if wait > scanPause {
		return
	}
	time.AfterFunc(wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.setClaimable()
	})
}

// loop claims while polls wait. After a failure a new poll is served without waiting for the end of the pause.
func (q *queue) loop() loop.Loop {
	return loop.Loop{
		Name: "worker_claim", Title: "claim for workers", Once: q.serveOnce, Wake: q.wake,
		Ready: func() bool { return q.tried }, Log: q.puller.Log, OnFailure: q.puller.Observe.Failed,
	}
}

// serveOnce claims, if polls wait and there may be runs for them. It ends the loop when no poll has come for a
// while.
func (q *queue) serveOnce(ctx context.Context) (time.Duration, error) {
	if q.tried = q.busy(); !q.tried {
		if clock.Elapsed()-q.served >= keepQueue && q.end() {
			return 0, loop.ErrDone
		}
		return keepQueue, nil
	}
	<-time.After(gatherPause)
	more, err := q.claim(ctx)
	q.served = clock.Elapsed()
	if more {
		return 0, nil
	}
	return keepQueue, err
}

// end closes and forgets the queue, unless polls wait.
func (q *queue) end() bool {
	q.mu.Lock()
	ends, handlers := len(q.polls) == 0, len(q.handlers)
	q.closed = q.closed || ends
	q.mu.Unlock()
	if ends {
		q.puller.remove(q)
		q.puller.handlers.Give(q.namespace, int64(handlers))
	}
	return ends
}

// endUnserved closes and forgets a queue that no poll has entered yet.
func (q *queue) endUnserved() {
	q.mu.Lock()
	ends := !q.serving
	q.closed = q.closed || ends
	q.mu.Unlock()
	if ends {
		q.puller.remove(q)
	}
}

func (q *queue) busy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.claimable && len(q.polls) > 0
}
