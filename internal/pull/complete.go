package pull

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	reportDelay   = 2 * time.Millisecond // a report waits so long for company
	reportLimit   = 15 * time.Second
	maxBatch      = 2000
	maxReported   = 50_000 // reports that wait to be written
	reportWriters = 2      // batches at once
)

// reports gathers what workers report into batches.
type reports struct {
	mu      sync.Mutex
	waiting []*reported
	size    int // reports in them
	writers int
}

// reported is the reports of one request.
type reported struct {
	done []job.Completion
	why  []job.GoneReason
	err  error
	over chan struct{}
}

// Complete writes what a worker reports. For each report it says why it was not
// taken; empty: it was. Reports that were sent before are told apart: they may be
// sent again after an error.
func (p *Puller) Complete(ctx context.Context, at job.SessionPath, done []job.Completion) ([]job.GoneReason, error) {
	w, err := p.session(ctx, at)
	if err != nil {
		return nil, err
	}
	for i := range done {
		done[i].Session = w.ID
		done[i].KeepKey()
	}
	r := &reported{done: done, over: make(chan struct{})}
	begin, err := p.reports.add(r)
	if err != nil {
		return nil, err
	}
	if begin {
		go p.write() //nolint:gosec,contextcheck // a batch is of many requests, and outlives each of them
	}
	select {
	case <-r.over:
	case <-ctx.Done():
		p.reports.drop(r) // nobody waits for the answer, and who gets none sends it again
		return nil, ctx.Err()
	}
	if r.err == nil {
		p.told(w.Queue, r)
	}
	return r.why, r.err
}

// withKeys leaves those out whose idempotency key cannot be made: they fail for
// good, for under another key a run could take effect twice.
func (p *Puller) withKeys(queue int32, given [][]job.Claimed) {
	var broken []debt
	for i := range given {
		given[i] = slices.DeleteFunc(given[i], func(c job.Claimed) bool {
			err := c.MakeKey()
			if err != nil {
				broken = append(broken, debt{job.Completion{Key: c.Key, Attempt: c.Number, Session: c.Session, Outcome: job.Outcome{Kind: job.Failed, Message: err.Error()}}, queue})
			}
			return err != nil
		})
	}
	p.settleNow(broken)
}

// write writes batches while there is something to write.
func (p *Puller) write() {
	for {
		<-time.After(reportDelay)
		batch, size := p.reports.take()
		if len(batch) == 0 {
			return
		}
		all := make([]job.Completion, 0, size)
		for _, r := range batch {
			all = append(all, r.done...)
		}
		ctx, cancel := context.WithTimeout(context.Background(), reportLimit)
		why, err := p.Store.CompletePulled(ctx, all)
		cancel()
		for _, r := range batch {
			if r.err = err; err == nil {
				r.why, why = why[:len(r.done)], why[len(r.done):]
			}
			close(r.over)
		}
	}
}

// add has reports written, and says whether a writer has to begin.
func (r *reports) add(one *reported) (begin bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size+len(one.done) > maxReported {
		return false, job.ErrTooManyReports
	}
	r.waiting, r.size = append(r.waiting, one), r.size+len(one.done)
	if r.writers == reportWriters {
		return false, nil
	}
	r.writers++
	return true, nil
}

// drop forgets reports, unless they are being written.
func (r *reports) drop(one *reported) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, one); i >= 0 {
		r.waiting, r.size = slices.Delete(r.waiting, i, i+1), r.size-len(one.done)
	}
}

// take takes a batch; none: the writer ends.
func (r *reports) take() (batch []*reported, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(r.waiting) && (n == 0 || size+len(r.waiting[n].done) <= maxBatch) {
		size += len(r.waiting[n].done)
		n++
	}
	batch, r.waiting, r.size = r.waiting[:n:n], r.waiting[n:], r.size-size
	if n == 0 {
		r.writers--
		r.waiting = nil
	}
	return batch, size
}

// told counts reports, and asks about runs that wait for those that ended.
func (p *Puller) told(queue int32, r *reported) {
	ended := map[uuid.UUID]bool{}
	for i, c := range r.done {
		if r.why[i] != "" {
			p.counts.stale.Add(1)
			continue
		}
		p.counts.reported.Add(1)
		p.Observe.Ended(c.Outcome)
		ended[c.Key.Job] = true
	}
	p.hasten(queue, ended)
}

// hasten has runs asked about that wait for others of their jobs.
func (p *Puller) hasten(queue int32, jobs map[uuid.UUID]bool) {
	p.mu.Lock()
	q := p.queues[queue]
	p.mu.Unlock()
	if q != nil && len(jobs) > 0 {
		q.hasten(jobs)
	}
}

type counts struct {
	looks, claims, claimed, reported, stale atomic.Int64
}

// Counts is what a Puller has done so far, and who waits.
type Counts struct {
	Looks, Claims, Claimed, Reported, Stale int64
	Waiting                                 int
	Reporting                               int // reports that wait to be written
	Lanes                                   int // that are known
}

// Counts tells what was done so far.
func (p *Puller) Counts() Counts {
	p.mu.Lock()
	waiting, lanes := p.waiting, 0
	for _, q := range p.queues {
		lanes += q.known()
	}
	p.mu.Unlock()
	p.reports.mu.Lock()
	reporting := p.reports.size
	p.reports.mu.Unlock()
	c := &p.counts
	return Counts{c.looks.Load(), c.claims.Load(), c.claimed.Load(), c.reported.Load(), c.stale.Load(), waiting, reporting, lanes}
}
