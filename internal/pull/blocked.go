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
	// blockedPause is when a blocked run is retried. It is retried earlier if a run of its job ends through
	// this node.
	blockedPause = time.Second
	// maxBlocked is how many a queue remembers. A scan from the beginning of the feed finds others again.
	maxBlocked = 10_000
)

// blockedRun is a due run that may not start yet: another run of its job is live, its concurrency key has no
// permit, or the decision about it is still to come.
type blockedRun struct {
	due   job.Due
	retry time.Duration // when to retry, by clock.Elapsed
}

// compare orders blocked runs by when they are to start.
func (b *blockedRun) compare(o *blockedRun) int {
	return cmp.Or(cmp.Compare(o.due.Priority, b.due.Priority), b.due.RunAt.Compare(o.due.RunAt))
}

// skipSet is the runs that claims and scans leave out. The value is true if the run may be retried one by
// one: a blocked run may, a run with an unresolved claim may not.
type skipSet map[job.RunKey]bool

// filter returns a function for the parameters of store calls; nil if the set is empty.
func (s skipSet) filter() func(job.Key) bool {
	if len(s) == 0 {
		return nil
	}
	return func(k job.Key) bool { _, skip := s[k.RunKey()]; return skip }
}

// skipped returns the runs to leave out now. The caller holds the lock.
func (q *queue) skipped() skipSet {
	set := make(skipSet, len(q.blocked))
	for k := range q.blocked {
		set[k] = true
	}
	for _, k := range q.puller.undelivered.unresolvedOf(q.id) {
		set[k] = false
	}
	return set
}

// retryBlocked lists the blocked runs whose time to retry has come, each assigned to the first poll that
// knows its handler. The caller holds the lock.
func (q *queue) retryBlocked(skip skipSet, polls []job.Poll) (out []job.Assignment) {
	now := clock.Elapsed()
	var runs []*blockedRun
	for k, b := range q.blocked {
		if b.retry <= now && skip[k] {
			runs = append(runs, b)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	slices.SortFunc(runs, (*blockedRun).compare)
	first := map[string]int{} // the first poll that knows a handler
	for i, p := range slices.Backward(polls) {
		for _, h := range p.Handlers {
			first[h] = i
		}
	}
	for _, b := range runs {
		if i, known := first[b.due.Handler]; known && len(out) < maxAdmits {
			out = append(out, job.Assignment{Due: b.due, Poll: i})
		}
	}
	return out
}

// block has claims and scans skip a run, and retries it after a while.
func (q *queue) block(d job.Due, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := d.RunKey()
	if len(q.blocked) < maxBlocked || q.blocked[k] != nil {
		q.blocked[k] = &blockedRun{d, clock.Elapsed() + wait}
	}
}

func (q *queue) unblock(k job.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.blocked, k.RunKey())
}

// runsEnded retries what waits for runs that have ended: the first blocked run of each job, and runs over
// the limit of the queue.
func (q *queue) runsEnded(jobs map[uuid.UUID]bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := map[uuid.UUID]*blockedRun{}
	for k, b := range q.blocked {
		if f := first[k.Job]; jobs[k.Job] && (f == nil || b.compare(f) < 0) {
			first[k.Job] = b
		}
	}
	for _, b := range first {
		b.retry = 0
	}
	if len(first) > 0 || q.atLimit {
		q.setClaimable()
	}
}

// runsEnded retries runs of a queue that wait for runs that have ended.
func (p *Puller) runsEnded(queue int32, jobs map[uuid.UUID]bool) {
	p.mu.Lock()
	q := p.queues[queue]
	p.mu.Unlock()
	if q != nil && len(jobs) > 0 {
		q.runsEnded(jobs)
	}
}
