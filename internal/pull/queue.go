package pull

import (
	"slices"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	gatherPause = time.Millisecond // how long a claim waits for more polls
	keepQueue   = time.Minute      // how long a queue without polls is remembered
)

// queue is a queue that workers of this node wait for. One goroutine, serve, claims for all its polls.
type queue struct {
	puller *Puller
	id     int32
	wake   chan struct{} // wakes serve

	mu    sync.Mutex
	polls []*longPoll // a poll moves to the end after each claim for it
	feeds map[feedKey]*feed
	// handlers counts the polls that wait for each handler that has feeds. Handlers without polls are idle.
	handlers map[string]int
	idle     map[string]bool

	blocked map[job.RunKey]*blockedRun
	// claimable says that there may be runs to claim; claimableIn is the round in which that became so.
	claimable   bool
	claimableIn int
	rounds      int  // claims so far
	atLimit     bool // the last claim left runs that exceed the queue's limit
	serving     bool
}

func newQueue(p *Puller, id int32) *queue {
	return &queue{
		puller: p, id: id, wake: make(chan struct{}, 1),
		feeds: map[feedKey]*feed{}, handlers: map[string]int{}, idle: map[string]bool{},
		blocked: map[job.RunKey]*blockedRun{},
	}
}

// enter adds a poll. It returns true if the caller has to start serve.
func (q *queue) enter(p *longPoll) (start bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.addHandlers(p.Handlers) {
		return false, job.ErrTooManyHandlers
	}
	q.polls = append(q.polls, p)
	start, q.serving = !q.serving, true
	if q.claimable {
		signal(q.wake)
	}
	return start, nil
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

// dismiss replies to all polls that no claim is under way for, with no runs. It returns how many these were.
func (q *queue) dismiss() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
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

// setClaimable has serve claim until it has claimed once for each poll. The caller holds the lock.
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

// serve claims while polls wait. It ends when there was none for a while.
func (q *queue) serve() {
	timer := time.NewTimer(keepQueue)
	defer timer.Stop()
	for {
		timer.Reset(keepQueue)
		select {
		case <-q.wake:
		case <-timer.C:
			if q.end() {
				return
			}
			continue
		}
		for q.busy() {
			<-time.After(gatherPause)
			if !q.claim() {
				break
			}
		}
	}
}

// end forgets the queue, unless polls wait.
func (q *queue) end() bool {
	q.puller.mu.Lock()
	defer q.puller.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.polls) > 0 {
		return false
	}
	delete(q.puller.queues, q.id)
	return true
}

func (q *queue) busy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.claimable && len(q.polls) > 0
}
