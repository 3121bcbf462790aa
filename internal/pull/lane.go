package pull

import (
	"maps"
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
	// maxLanes bounds what a node knows of one queue: 2,000 handlers. Names can be
	// invented, and those of workers that left are forgotten before it is full.
	maxLanes = 20_000
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

// forgetLanes forgets those that nobody waits for. The lock is held.
func (q *queue) forgetLanes() {
	handlers := map[string]bool{}
	for _, w := range q.line {
		for _, h := range w.seeker.Handlers {
			handlers[h] = true
		}
	}
	maps.DeleteFunc(q.lanes, func(k laneKey, _ *lane) bool { return !handlers[k.handler] })
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
