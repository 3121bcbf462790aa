package pull

import (
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	// markLag is how far a mark stays behind the database's clock at least: a transaction that makes a run
	// due now commits a little later.
	markLag = 250 * time.Millisecond
	// Every rewindEvery a scan starts rewindBy before now, or at the mark if that is earlier. It finds
	// runs of transactions that took longer to commit, and runs that are due after the clock was set back.
	rewindBy    = 10 * time.Second
	rewindEvery = time.Second
	// Every fullEvery a scan starts at the beginning of the feed, so that a mark can never hide a run for
	// long, whatever the reason.
	fullEvery = 30 * time.Second
	// maxHandlers is how many handlers of one queue a node remembers: 20,000 feeds. Workers can invent
	// names, so handlers without polls are forgotten when new ones need the space.
	maxHandlers = 2000
	// maxNodeHandlers is how many handlers of all queues a node remembers, divided among namespaces.
	maxNodeHandlers = 20_000
)

// feedKey names a feed within its queue.
type feedKey struct {
	handler  string
	priority int16
}

func (k feedKey) feed(queue int32, mark time.Time) job.Feed {
	return job.Feed{Queue: queue, Handler: k.handler, Priority: k.priority, Mark: mark}
}

// feedsOf lists the feeds of handlers, of all priorities.
func feedsOf(handlers map[string]bool) (out []feedKey) {
	for h := range handlers {
		for p := int16(job.MaxPriority); p >= 0; p-- {
			out = append(out, feedKey{h, p})
		}
	}
	return out
}

// feed is what a node knows of a feed.
type feed struct {
	// mark is the low-water mark: every run before it has been taken. Zero: nothing is known.
	mark time.Time
	// When a scan last started before the mark, and at the beginning, by clock.Elapsed.
	rewound, full time.Duration
}

// scanFrom returns where a scan starts.
func (f *feed) scanFrom(now time.Time, elapsed time.Duration) time.Time {
	switch {
	case f.mark.IsZero() || elapsed-f.full >= fullEvery:
		f.full, f.rewound = elapsed, elapsed
		return time.Time{}
	case elapsed-f.rewound >= rewindEvery:
		f.rewound = elapsed
		return earlier(f.mark, now.Add(-rewindBy))
	default:
		return f.mark
	}
}

// read moves the mark, perhaps back, to the first run that a scan or claim has left. Zero: it left none. It knows nothing
// about runs before the place where it began, and another one may have found some there. If late runs were written after
// it began, it may have missed them wherever they are, so it only moves the mark back.
func (f *feed) read(from, now, left time.Time, late bool) {
	if left.IsZero() {
		left = now
	}
	left = earlier(left, now.Add(-markLag))
	switch {
	case late:
		f.mark = earlier(f.mark, left)
	case !f.mark.Before(from):
		f.mark = left
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// addHandlers counts the handlers of a poll. It returns false if polls wait for too many. The work depends
// on how many handlers the poll names and not on how many the queue has, because all other polls of the queue
// wait meanwhile. The caller holds the lock.
func (q *queue) addHandlers(names []string) bool {
	own, fresh, idle := setOf(names), 0, len(q.idle)
	for h := range own {
		switch _, known := q.handlers[h]; {
		case !known:
			fresh++
		case q.idle[h]:
			idle--
		}
	}
	excess := len(q.handlers) + fresh - maxHandlers
	if excess > idle {
		return false
	}
	for h := range q.idle {
		if excess <= 0 {
			break
		}
		if !own[h] {
			q.forgetHandler(h)
			excess--
		}
	}
	if !q.takeHandlers(own, int64(fresh)) {
		return false
	}
	for _, h := range names {
		if _, known := q.handlers[h]; !known {
			for _, k := range feedsOf(map[string]bool{h: true}) {
				q.feeds[k] = &feed{}
			}
			q.setClaimable() // it may have due runs
		}
		q.handlers[h]++
		delete(q.idle, h)
	}
	return true
}

// takeHandlers takes new handlers from the share of the namespace, and forgets those without polls if it has no other. The
// caller holds the lock.
func (q *queue) takeHandlers(own map[string]bool, fresh int64) bool {
	take := func() bool { return fresh == 0 || q.puller.handlers.Take(q.namespace, fresh) == nil }
	if take() {
		return true
	}
	for h := range q.idle {
		if !own[h] {
			q.forgetHandler(h)
		}
	}
	return take()
}

// forgetIdle forgets the handlers that no poll waits for. A closed queue has already returned its share.
func (q *queue) forgetIdle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	for h := range q.idle {
		q.forgetHandler(h)
	}
}

// removeHandlers is addHandlers undone, for a poll that has left. The caller holds the lock.
func (q *queue) removeHandlers(names []string) {
	for _, h := range names {
		if q.handlers[h]--; q.handlers[h] == 0 {
			q.idle[h] = true
		}
	}
}

// forgetHandler forgets a handler without polls. The caller holds the lock.
func (q *queue) forgetHandler(handler string) {
	q.puller.handlers.Give(q.namespace, 1)
	delete(q.idle, handler)
	delete(q.handlers, handler)
	for _, k := range feedsOf(map[string]bool{handler: true}) {
		delete(q.feeds, k)
	}
}

// awaited returns the handlers that polls wait for. The caller holds the lock.
func (q *queue) awaited() map[string]bool {
	out := make(map[string]bool, len(q.handlers)-len(q.idle))
	for h := range q.handlers {
		if !q.idle[h] {
			out[h] = true
		}
	}
	return out
}

func (q *queue) feedCount() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.feeds)
}
