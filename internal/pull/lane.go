package pull

import (
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	// markLag is how long before now a mark stays at least: transactions that make
	// a run due now commit a little later.
	markLag = 250 * time.Millisecond
	// Looks begin so far before the mark, and so often: for transactions that took
	// longer, and for a clock that was set back.
	backLag   = 10 * time.Second
	backEvery = time.Second
	// And at the beginning: for what nobody thought of.
	fullEvery = 30 * time.Second
	// maxHandlers bounds what a node knows of one queue: 20,000 lanes. Names can be
	// invented, and those that nobody waits for make room.
	maxHandlers = 2000
)

// laneKey names a lane within its queue.
type laneKey struct {
	handler  string
	priority int16
}

// lane is what a node knows of a lane.
type lane struct {
	mark time.Time // zero: nothing is known
	// When it was last looked at further back, by clock.Elapsed.
	back, full time.Duration
}

// from is where a look at an instant begins.
func (l *lane) from(now time.Time, elapsed time.Duration) time.Time {
	switch {
	case l.mark.IsZero() || elapsed-l.full >= fullEvery:
		l.full, l.back = elapsed, elapsed
		return time.Time{}
	case elapsed-l.back >= backEvery:
		l.back = elapsed
		return earlier(l.mark, now.Add(-backLag))
	default:
		return l.mark
	}
}

// looked takes what a look has found: the time of the first run from its
// beginning on, zero if there is none.
func (l *lane) looked(now, first time.Time) {
	known := now.Add(-markLag)
	switch {
	case !first.IsZero() && first.Before(known):
		l.mark = first // also back
	case l.mark.Before(known):
		l.mark = known
	}
}

// claimed takes what a claim has left: all before it is taken.
func (l *lane) claimed(now, left time.Time) {
	l.mark = earlier(left, now.Add(-markLag))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// count counts a poll for its handlers; false: too many are waited for. It costs
// what the poll names, and not what the queue knows, for all polls of the node
// wait meanwhile. The lock is held.
func (q *queue) count(names []string) bool {
	own, fresh, idle := setOf(names), 0, len(q.idle)
	for h := range own {
		switch _, known := q.handlers[h]; {
		case !known:
			fresh++
		case q.idle[h]:
			idle--
		}
	}
	over := len(q.handlers) + fresh - maxHandlers
	if over > idle {
		return false
	}
	for h := range q.idle {
		if over <= 0 {
			break
		}
		if !own[h] {
			q.forget(h)
			over--
		}
	}
	for _, h := range names {
		if _, known := q.handlers[h]; !known {
			for _, k := range lanesOf(map[string]bool{h: true}) {
				q.lanes[k] = &lane{}
			}
			q.heat() // nothing is known of it: ask at once
		}
		q.handlers[h]++
		delete(q.idle, h)
	}
	return true
}

// uncount is of a poll that has left the line. The lock is held.
func (q *queue) uncount(w *waiter) {
	for _, h := range w.seeker.Handlers {
		if q.handlers[h]--; q.handlers[h] == 0 {
			q.idle[h] = true
		}
	}
}

// forget forgets a handler that nobody waits for. The lock is held.
func (q *queue) forget(handler string) {
	delete(q.idle, handler)
	delete(q.handlers, handler)
	for _, k := range lanesOf(map[string]bool{handler: true}) {
		delete(q.lanes, k)
	}
}

// awaited are the handlers that somebody waits for. The lock is held.
func (q *queue) awaited() map[string]bool {
	out := make(map[string]bool, len(q.handlers)-len(q.idle))
	for h := range q.handlers {
		if !q.idle[h] {
			out[h] = true
		}
	}
	return out
}

// known is how many lanes are.
func (q *queue) known() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lanes)
}

// lanesOf lists the lanes of handlers, of all priorities.
func lanesOf(handlers map[string]bool) (out []laneKey) {
	for h := range handlers {
		for p := int16(job.MaxPriority); p >= 0; p-- {
			out = append(out, laneKey{h, p})
		}
	}
	return out
}
