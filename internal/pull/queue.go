package pull

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	gatherPause = time.Millisecond // a claim waits so long for company
	maxPolls    = 200              // in one claim
	laneLimit   = 1000             // candidates of one lane in one claim
	maxAdmits   = 50               // decisions in one round
	keepQueue   = time.Minute
)

// queue is a queue that workers of this node wait for. One goroutine claims for it
// while somebody waits.
type queue struct {
	puller *Puller
	id     int32

	mu    sync.Mutex
	line  []*waiter // those that were asked for go behind the others
	lanes map[laneKey]*lane
	// handlers are those that have lanes, with how many polls wait for each; those
	// with none are idle.
	handlers map[string]int
	idle     map[string]bool

	parked  map[runKey]*parked
	rounds  int  // that were begun
	hot     bool // there may be something to claim
	since   int  // the round in which it became so
	full    bool // the queue's limit has kept runs back
	serving bool
	signal  chan struct{}
}

// runKey is a key that can be compared.
type runKey struct {
	job uuid.UUID
	due int64
	seq int16
}

func keyOf(k job.Key) runKey { return runKey{k.Job, k.DueAt.UnixMicro(), k.Seq} }

func newQueue(p *Puller, id int32) *queue {
	return &queue{
		puller: p, id: id, lanes: map[laneKey]*lane{}, handlers: map[string]int{}, idle: map[string]bool{},
		parked: map[runKey]*parked{}, signal: make(chan struct{}, 1),
	}
}

// enter adds a poll, and says whether somebody has to begin to serve.
func (q *queue) enter(w *waiter) (begin bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.count(w.seeker.Handlers) {
		return false, job.ErrTooManyHandlers
	}
	q.line = append(q.line, w)
	begin, q.serving = !q.serving, true
	if q.hot {
		q.poke()
	}
	return begin, nil
}

// heat has all who wait asked for. The lock is held.
func (q *queue) heat() {
	q.hot, q.since = true, q.rounds
	q.poke()
}

func setOf[T comparable](names []T) map[T]bool {
	out := make(map[T]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

func (q *queue) poke() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

func (q *queue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.taken {
		w.over = true // the claim's answer is its last
		return false
	}
	i := slices.Index(q.line, w)
	if i < 0 {
		return false // it has its answer
	}
	q.line = slices.Delete(q.line, i, i+1)
	q.uncount(w)
	return true
}

// dismiss answers all that no claim is under way for.
func (q *queue) dismiss() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.line = slices.DeleteFunc(q.line, func(w *waiter) bool {
		if w.taken {
			return false
		}
		q.uncount(w)
		w.got <- answer{}
		n++
		return true
	})
	q.poke()
	return n
}

// serve claims while somebody waits. It ends when nobody has for a while.
func (q *queue) serve() {
	timer := time.NewTimer(keepQueue)
	defer timer.Stop()
	for {
		timer.Reset(keepQueue)
		select {
		case <-q.signal:
		case <-timer.C:
			if q.end() {
				return
			}
			continue
		}
		for q.busy() {
			<-time.After(gatherPause)
			if !q.round() {
				break
			}
		}
	}
}

// end forgets the queue if nobody waits.
func (q *queue) end() bool {
	q.puller.mu.Lock()
	defer q.puller.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.line) > 0 {
		return false
	}
	delete(q.puller.queues, q.id)
	return true
}

func (q *queue) busy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hot && len(q.line) > 0
}

// round makes one claim for those who wait, and says whether another is worth it.
func (q *queue) round() bool {
	polls, order, again := q.take()
	if len(polls) == 0 {
		return false
	}
	p := q.puller
	p.slots <- struct{}{}
	defer func() { <-p.slots }()
	ctx, cancel := context.WithTimeout(context.Background(), claimLimit)
	defer cancel()
	out, err := p.Store.ClaimDue(ctx, order)
	p.counts.claims.Add(1)
	if err != nil {
		p.Log.Warn("claim for workers failed; they open new sessions", "workers", len(polls), "error", err)
		q.answer(polls, nil, nil, err)
		return false
	}
	given := make([][]job.Claimed, len(polls))
	index := make(map[uuid.UUID]int, len(polls))
	dead := setOf(out.Expired)
	for i := range order.Polls {
		s := &order.Polls[i]
		index[s.Session] = i
		if dead[s.Session] {
			s.Max = 0 // a decision would still give it something, up to its last moment
		}
	}
	for _, c := range out.Claimed {
		i := index[c.Session]
		given[i] = append(given[i], c)
	}
	if !out.Paused {
		q.learn(order.Feeds, out)
		for _, r := range out.Refused {
			if r.Refusal.Limit.Kind == job.LimitKey {
				q.park(r.Due, parkPause)
			}
		}
		q.admit(ctx, append(again, out.Undecided...), order.Polls, given)
	}
	p.withKeys(q.id, given)
	more := q.settle(out, slices.ContainsFunc(given, func(runs []job.Claimed) bool { return len(runs) > 0 }))
	q.answer(polls, given, dead, nil)
	return more
}

// take marks those who wait as taken, and makes the order of their claim. Two
// polls of one session are never in one claim: its runs have to be told apart.
func (q *queue) take() (polls []*waiter, order job.PullClaimParams, again []job.Assignment) {
	q.mu.Lock()
	defer q.mu.Unlock()
	apart := q.apart()
	order = job.PullClaimParams{Queue: q.id, Limit: laneLimit, Ahead: lookPause, Skip: leaveOut(apart)}
	handlers, sessions := map[string]bool{}, map[uuid.UUID]bool{}
	q.rounds++
	for _, w := range q.line {
		if len(polls) == maxPolls || sessions[w.seeker.Session] {
			continue
		}
		w.asked = q.rounds
		w.taken, sessions[w.seeker.Session] = true, true
		polls, order.Polls = append(polls, w), append(order.Polls, w.seeker)
		for _, h := range w.seeker.Handlers {
			handlers[h] = true
		}
	}
	for _, k := range lanesOf(handlers) {
		order.Feeds = append(order.Feeds, job.Feed{Queue: q.id, Handler: k.handler, Priority: k.priority, Mark: q.lanes[k].mark})
	}
	return polls, order, q.unpark(apart, order.Polls)
}

// learn moves the marks.
func (q *queue) learn(lanes []job.Feed, out job.PullClaimResult) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, l := range lanes {
		if known := q.lanes[laneKey{l.Handler, l.Priority}]; known != nil {
			known.claimed(out.Now, out.Marks[i])
		}
	}
}

// admit asks the policy about runs that need it, one by one.
func (q *queue) admit(ctx context.Context, runs []job.Assignment, polls []job.Poll, given [][]job.Claimed) {
	size := sizeOf(given...)
	for n, d := range runs {
		s := polls[d.Poll]
		if n >= maxAdmits || len(given[d.Poll]) >= s.Max || size >= job.MaxClaimBytes {
			q.park(d.Due, 0)
			continue
		}
		claimed, done, err := q.puller.Store.AdmitDue(ctx, q.id, s.Session, d.Due)
		switch {
		case err != nil:
			// It may have been started all the same; then its worker does not know.
			q.puller.Log.Warn("decision about a run for a worker failed", "run", job.FormatRunID(d.Key), "error", err)
			q.park(d.Due, parkPause)
			q.puller.owe([]debt{doubt(d.Key, s.Session, q.id)}) //nolint:contextcheck // it outlives the claim
		case claimed != nil:
			given[d.Poll] = append(given[d.Poll], *claimed)
			size += len(claimed.Payload)
			q.release(d.Key)
		case done:
			q.release(d.Key)
		default:
			q.park(d.Due, parkPause)
		}
	}
}

// sizeOf is how many bytes of payload runs have.
func sizeOf(given ...[]job.Claimed) (n int) {
	for _, runs := range given {
		for _, r := range runs {
			n += len(r.Payload)
		}
	}
	return n
}

// settle says whether there may be more at once; if not, a look will tell.
func (q *queue) settle(out job.PullClaimResult, some bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.full = false
	for _, r := range out.Refused {
		q.full = q.full || r.Refusal.Limit.Kind == job.LimitQueue
	}
	// What is due and could not be had is for a look to find; but first all are asked for.
	q.hot = !out.Paused && !q.full && (some || slices.ContainsFunc(q.line, func(w *waiter) bool { return w.asked <= q.since }))
	if !out.Next.IsZero() {
		q.soon(out.Next)
	}
	return q.hot
}

// answer tells those who got something, and lets the others wait on, behind
// those who were not asked for.
func (q *queue) answer(polls []*waiter, given [][]job.Claimed, dead map[uuid.UUID]bool, err error) {
	p := q.puller
	now, n, stopped := p.Bound.Now(), 0, p.isStopped()
	q.mu.Lock()
	for i, w := range polls {
		w.taken = false
		if at := slices.Index(q.line, w); at >= 0 {
			q.line = slices.Delete(q.line, at, at+1)
		}
		if err == nil && len(given[i]) == 0 && !stopped && !w.over && !dead[w.seeker.Session] {
			q.line = append(q.line, w)
			continue
		}
		q.uncount(w)
		a := answer{err: err}
		switch {
		case err != nil:
		case dead[w.seeker.Session]:
			a.err = job.ErrSessionExpired
		default:
			a.runs = given[i]
		}
		w.got <- a
		n++
	}
	q.mu.Unlock()
	p.left(n)
	for _, runs := range given {
		p.counts.claimed.Add(int64(len(runs)))
		for _, r := range runs {
			p.Observe.Started(now.Sub(r.RunAt))
		}
	}
}
