package pull

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
	"github.com/belfry-dev/belfry/internal/share"
)

const (
	reportDelay   = 2 * time.Millisecond // how long a batch waits for more reports
	reportLimit   = 15 * time.Second
	maxBatch      = 2000
	maxReported   = 50_000 // reports that wait to be written, divided among namespaces
	reportWriters = 2      // batches at the same time
)

// reports collects the reports of several requests into batches. Namespaces take turns, so that one that reports much
// does not delay the others: each report has a turn, which is how many completions its namespace has reported before it.
type reports struct {
	share *share.Pool // completions that are waiting

	mu      sync.Mutex
	waiting []*report         // by turn
	turn    int               // of the last batch
	next    map[uuid.UUID]int // of the next report of a namespace
	writers int
}

func newReports() reports {
	return reports{share: share.New(maxReported), next: map[uuid.UUID]int{}}
}

// report is the outcomes of one request, and the reply to it.
type report struct {
	namespace   uuid.UUID
	turn        int
	completions []job.Completion
	results     []job.Reported // of each completion
	err         error
	written     chan struct{} // closed when results or err is set
}

// Complete writes the outcomes that a worker reports. For each it returns why it was rejected, or "" if it was
// accepted. After an error the worker can send them again: outcomes that were written are recognized.
func (p *Puller) Complete(ctx context.Context, at job.SessionPath, done []job.Completion) ([]job.GoneReason, error) {
	w, err := p.session(ctx, at)
	if err != nil {
		return nil, err
	}
	for i := range done {
		done[i].Session, done[i].Queue, done[i].Namespace = w.ID, w.Queue, w.Namespace
	}
	r := &report{namespace: w.Namespace, completions: done, written: make(chan struct{})}
	start, err := p.reports.add(r)
	if err != nil {
		return nil, err
	}
	if start {
		l := p.reportLoop()
		go l.Run(context.Background()) //nolint:gosec,contextcheck // a batch serves many requests, and outlives each
	}
	select {
	case <-r.written:
	case <-ctx.Done():
		p.reports.drop(r) // a worker that gets no reply sends its report again
		return nil, ctx.Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	p.reported(w.Queue, r)
	rejected := make([]job.GoneReason, len(r.results))
	for i := range r.results {
		rejected[i] = r.results[i].Rejected
	}
	return rejected, nil
}

// reported counts outcomes that were written, and retries runs that waited for runs that have ended.
func (p *Puller) reported(queue int32, r *report) {
	var ended []job.Key
	for i, c := range r.completions {
		if r.results[i].Rejected != "" {
			p.counters.stale.Add(1)
			continue
		}
		p.counters.reported.Add(1)
		p.Observe.Ended(queue, c.Outcome, r.results[i].Took)
		ended = append(ended, c.Key)
	}
	p.runsEnded(queue, ended)
}

// reportLoop writes batches until no report waits. Its rounds never fail: Complete returns the error, and the
// workers send their reports again.
func (p *Puller) reportLoop() loop.Loop {
	return loop.Loop{Name: "worker_report", Once: p.writeReports, Log: p.Log}
}

// writeReports waits a moment for more reports, and writes a batch.
func (p *Puller) writeReports(ctx context.Context) (time.Duration, error) {
	<-time.After(reportDelay)
	batch, size := p.reports.take()
	if len(batch) == 0 {
		return 0, loop.ErrDone
	}
	all := make([]job.Completion, 0, size)
	for _, r := range batch {
		all = append(all, r.completions...)
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	results, err := p.Store.CompletePulled(ctx, all)
	for _, r := range batch {
		if r.err = err; err == nil {
			r.results, results = results[:len(r.completions)], results[len(r.completions):]
			r.err = firstError(r.results)
		}
		close(r.written)
	}
	return 0, nil
}

// firstError returns why reports may not be written; nil: they are.
func firstError(results []job.Reported) error {
	i := slices.IndexFunc(results, func(r job.Reported) bool { return r.Err != nil })
	if i < 0 {
		return nil
	}
	return results[i].Err
}

// add adds a report. It returns true if the caller has to start a writer.
func (r *reports) add(one *report) (start bool, err error) {
	size := len(one.completions)
	if r.share.Take(one.namespace, int64(size)) != nil {
		return false, job.ErrTooManyReports
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one.turn = max(r.turn, r.next[one.namespace])
	r.next[one.namespace] = one.turn + size
	at, _ := slices.BinarySearchFunc(r.waiting, one.turn+1, func(w *report, turn int) int { return w.turn - turn })
	r.waiting = slices.Insert(r.waiting, at, one)
	if r.writers == reportWriters {
		return false, nil
	}
	r.writers++
	return true, nil
}

// drop removes a report, unless it is being written. The next report of its namespace gets its turn.
func (r *reports) drop(one *report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, one); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		r.share.Give(one.namespace, int64(len(one.completions)))
		r.next[one.namespace] -= len(one.completions)
	}
}

// take removes a batch. If there is none, the writer ends.
func (r *reports) take() (batch []*report, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(r.waiting) && (n == 0 || size+len(r.waiting[n].completions) <= maxBatch) {
		one := r.waiting[n]
		size, r.turn = size+len(one.completions), one.turn
		r.share.Give(one.namespace, int64(len(one.completions)))
		n++
	}
	batch, r.waiting = r.waiting[:n:n], r.waiting[n:]
	if len(r.waiting) == 0 {
		r.waiting, r.turn = nil, 0
		clear(r.next)
	}
	if n == 0 {
		r.writers--
	}
	return batch, size
}
