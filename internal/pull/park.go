package pull

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	// parkPause is after how long a run that has to wait for another of its job is
	// asked about again. The end of that one, if it comes through here, asks earlier.
	parkPause = time.Second
	maxParked = 10_000
)

// parked is a run that waits for another of its job.
type parked struct {
	due job.Due
	at  time.Duration // when to ask again, by clock.Elapsed
}

// compare is the order in which they are to start.
func (p *parked) compare(o *parked) int {
	return cmp.Or(cmp.Compare(o.due.Priority, p.due.Priority), p.due.RunAt.Compare(o.due.RunAt))
}

// apart are the runs that claims and looks leave out: those that are parked, and
// with false those that nobody is to ask about. The lock is held.
func (q *queue) apart() map[runKey]bool {
	set := make(map[runKey]bool, len(q.parked))
	for k := range q.parked {
		set[k] = true
	}
	for _, k := range q.puller.debts.of(q.id) {
		set[k] = false
	}
	return set
}

// leaveOut makes a filter of keys; nil: of none.
func leaveOut(set map[runKey]bool) func(job.Key) bool {
	if len(set) == 0 {
		return nil
	}
	return func(k job.Key) bool { _, ok := set[keyOf(k)]; return ok }
}

// unpark lists the parked runs that are to be asked about again, each for one
// who knows its handler. The lock is held.
func (q *queue) unpark(apart map[runKey]bool, polls []job.Poll) (out []job.Assignment) {
	now := clock.Elapsed()
	var ask []*parked
	for k, p := range q.parked {
		if p.at <= now && apart[k] {
			ask = append(ask, p)
		}
	}
	slices.SortFunc(ask, (*parked).compare)
	for _, p := range ask {
		for i, s := range polls {
			if len(out) < maxAdmits && slices.Contains(s.Handlers, p.due.Handler) {
				out = append(out, job.Assignment{Due: p.due, Poll: i})
				break
			}
		}
	}
	return out
}

// park keeps a run apart until it is asked about again. What is too much is found
// by a look from the beginning.
func (q *queue) park(d job.Due, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.parked) < maxParked || q.parked[keyOf(d.Key)] != nil {
		q.parked[keyOf(d.Key)] = &parked{d, clock.Elapsed() + wait}
	}
}

func (q *queue) release(k job.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.parked, keyOf(k))
}

// hasten asks at once about what waits for runs that have ended: of each job the
// first. And there may be a place under the queue's limits.
func (q *queue) hasten(jobs map[uuid.UUID]bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := map[uuid.UUID]*parked{}
	for k, p := range q.parked {
		if f := first[k.job]; jobs[k.job] && (f == nil || p.compare(f) < 0) {
			first[k.job] = p
		}
	}
	for _, p := range first {
		p.at = 0
	}
	if len(first) > 0 || q.full {
		q.heat()
	}
}
