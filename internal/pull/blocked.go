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
	// blockedPause is when the first run of a line is retried. It is retried earlier if a run that the line may wait for
	// ends through this node.
	blockedPause = time.Second
	// behindPause is how much later the runs behind it are retried, in case the line no longer concerns them: their job may
	// have another concurrency key by now, or another policy.
	behindPause = 30 * time.Second
	// maxBehind is how many of those a claim retries: each takes a transaction, and the polls wait for it.
	maxBehind = 5
	// maxBlocked is how many a queue remembers. A scan from the beginning of the feed finds others again.
	maxBlocked = 10_000
	// maxKeys bounds the keys of claimed runs. If it is reached, lines wait for blockedPause.
	maxKeys = 10_000
)

// blockedRun is a due run that may not start yet: another run of its job is live, its concurrency key has no
// permit, or the decision about it is still to come. It never changes: it is replaced.
type blockedRun struct {
	due   job.Due
	key   line          // of the concurrency key that refused it, if one did
	full  bool          // that key had no permit; otherwise another transaction had its lock
	retry time.Duration // when to retry, by clock.Elapsed; 0: immediately, because it was not refused yet
}

// refuse notes that it may not start, and in which line it waits if its key has no permit.
func (b *blockedRun) refuse(r job.Refusal) {
	b.retry = clock.Elapsed() + blockedPause
	if r.Limit.Kind == job.LimitKey {
		b.key, b.full = line{limit: r.Limit, max: r.KeyMax}, !r.Busy
	} else {
		b.full = false
	}
}

// compare orders lines by when their first runs are to start, and the runs that wait for a key.
func (b *blockedRun) compare(o *blockedRun) int {
	return cmp.Or(cmp.Compare(o.due.Priority, b.due.Priority), b.due.RunAt.Compare(o.due.RunAt))
}

// compareInLine orders the runs of one line. A retry or jitter moves the run time, but not the turn among the runs of a
// job.
func (b *blockedRun) compareInLine(o *blockedRun) int {
	if b.line().job != uuid.Nil {
		return b.due.CompareDue(o.due.Key)
	}
	return b.compare(o)
}

// line names the blocked runs that wait for the same: a permit of a concurrency key with the same maximum, or the live
// run of a job. If the first of them may not start for that reason, the others may not either. A run in the line of a
// key may also have to wait for its job: see admitOne.
type line struct {
	limit job.Limit
	max   int32
	job   uuid.UUID
}

func (b *blockedRun) line() line {
	if b.key != (line{}) {
		return b.key
	}
	return line{job: b.due.Job}
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

// waits returns a function for the parameters of a claim: whether as many runs with these handlers wait for a run's
// concurrency key as it has permits. They get the next free permits, so the run joins them without a try. A run with an
// overlap policy does not: that is decided first. Lines of keys with many permits would start too few runs in a claim.
// The caller holds the lock.
func (q *queue) waits(handlers map[string]bool) func(job.Due) bool {
	waiting := map[line]int32{}
	for _, b := range q.blocked {
		if b.full && handlers[b.due.Handler] {
			waiting[b.key]++
		}
	}
	return func(d job.Due) bool {
		n := waiting[line{limit: d.KeyLimit, max: d.KeyMax}]
		return n > 0 && n >= d.KeyMax && d.KeyMax <= maxAdmits && !d.Admit.Exclusive()
	}
}

// noteKeys notes the concurrency keys of claimed runs, for runsEnded. The caller holds the lock.
func (q *queue) noteKeys(claimed [][]job.Claimed) {
	if len(q.keys) >= maxKeys {
		clear(q.keys)
	}
	for _, runs := range claimed {
		for _, c := range runs {
			for _, l := range c.Limits {
				if l.Kind == job.LimitKey {
					q.keys[c.Key.RunKey()] = l
				}
			}
		}
	}
}

// turn is blocked runs that may be able to start now, one after the other until one may not.
type turn struct {
	since time.Duration
	runs  []*blockedRun
}

// retryable returns the lines that are to be retried now, of runs with these handlers. The caller holds the lock.
func (q *queue) retryable(skip skipSet, handlers map[string]bool) (turns []turn) {
	now := clock.Elapsed()
	var behind []turn
	lines := map[line][]*blockedRun{}
	for k, b := range q.blocked {
		if skip[k] && handlers[b.due.Handler] {
			lines[b.line()] = append(lines[b.line()], b)
		}
	}
	for _, runs := range lines {
		slices.SortFunc(runs, (*blockedRun).compareInLine)
		if first := runs[0]; first.retry <= now {
			turns = append(turns, turn{first.retry, runs})
			continue
		}
		for i, b := range runs[1:] {
			one := runs[i+1 : i+2]
			if b.retry == 0 {
				turns = append(turns, turn{0, one})
			} else if since := b.retry + behindPause; since <= now {
				behind = append(behind, turn{since, one})
			}
		}
	}
	slices.SortFunc(behind, func(a, b turn) int { return cmp.Compare(a.since, b.since) })
	return append(turns, behind[:min(maxBehind, len(behind))]...)
}

// retryBlocked returns the lines that have their turn in a claim, in the order in which they are to start. Those that
// wait longest for their turn are chosen, so a line that is refused again and again does not keep others from theirs.
// Lines that were never refused go before, but get only half of the turns if others want the rest. The caller holds
// the lock.
func (q *queue) retryBlocked(skip skipSet, handlers map[string]bool) []turn {
	turns := q.retryable(skip, handlers)
	byRun := func(a, b turn) int { return a.runs[0].compare(b.runs[0]) }
	if more := len(turns) - maxAdmits; more > 0 {
		slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.since, b.since), byRun(a, b)) })
		fresh, _ := slices.BinarySearchFunc(turns, 1, func(t turn, since time.Duration) int {
			return cmp.Compare(t.since, since)
		})
		left := min(more, max(fresh-maxAdmits/2, 0))
		turns = slices.Delete(turns, fresh-left, fresh)[:maxAdmits]
	}
	slices.SortFunc(turns, byRun)
	return turns
}

// block has claims and scans skip a run, and retries it later. While too many are blocked, a run that is refused is
// forgotten, so that others can be decided, and it returns false.
func (q *queue) block(b blockedRun) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := b.due.RunKey()
	if len(q.blocked) >= maxBlocked {
		delete(q.blocked, k)
		return false
	}
	q.blocked[k] = &b
	return true
}

func (q *queue) unblock(k job.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.blocked, k.RunKey())
}

// runsEnded retries what waits for runs that have ended: the lines with runs of their jobs, the lines of their concurrency
// keys, and runs over the limit of the queue.
func (q *queue) runsEnded(ended []job.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs, keys := map[uuid.UUID]bool{}, map[job.Limit]bool{}
	for _, k := range ended {
		jobs[k.Job] = true
		if l, ok := q.keys[k.RunKey()]; ok {
			keys[l] = true
			delete(q.keys, k.RunKey())
		}
	}
	type part struct { // of a line, because its other handlers may have no worker
		line
		handler string
	}
	partOf := func(b *blockedRun) part { return part{b.line(), b.due.Handler} }
	first := map[part]*blockedRun{}
	for k, b := range q.blocked {
		if jobs[k.Job] || keys[b.key.limit] {
			first[partOf(b)] = b
		}
	}
	for _, b := range q.blocked {
		if f := first[partOf(b)]; f != nil && b.compareInLine(f) < 0 {
			first[partOf(b)] = b
		}
	}
	for _, b := range first {
		q.blocked[b.due.RunKey()] = &blockedRun{due: b.due, key: b.key, full: b.full}
	}
	if len(first) > 0 || q.atLimit {
		q.setClaimable()
	}
}

// runsEnded retries runs of a queue that wait for runs that have ended.
func (p *Puller) runsEnded(queue int32, ended []job.Key) {
	p.mu.Lock()
	q := p.queues[queue]
	p.mu.Unlock()
	if q != nil && len(ended) > 0 {
		q.runsEnded(ended)
	}
}
