package pull

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

const (
	scanPause = 200 * time.Millisecond
	// scanAhead is how early a scan sees a run, so that the claim is on time.
	scanAhead = time.Second
	maxFeeds  = 2000 // in one statement
	// maxScanPause is the longest pause after scans that failed.
	maxScanPause = 2 * time.Second
)

// scanLoop finds out which queues with polls have due runs, and wakes them. It ends when no poll waits.
func (p *Puller) scanLoop() loop.Loop {
	some := false
	return loop.Loop{
		Name: "worker_scan", Title: "scan for due runs",
		Once: func(ctx context.Context) (_ time.Duration, err error) {
			if some, err = p.scanOnce(ctx); !some && p.endScan() {
				return 0, loop.ErrDone
			}
			return scanPause, err
		},
		// Polls for new feeds wake the scan, but not after a failure.
		Wake: p.wakeScan, Backoff: loop.Backoff{Min: 2 * scanPause, Max: maxScanPause, Wait: true},
		Ready: func() bool { return some }, Log: p.Log, OnFailure: p.Observe.Failed,
	}
}

// anyUnknown reports whether one of the handlers was never scanned.
func (q *queue) anyUnknown(handlers []string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(handlers, func(h string) bool { return q.feeds[feedKey{h, 0}].mark.IsZero() })
}

// endScan ends the scan, unless polls wait.
func (p *Puller) endScan() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scanning = p.polls.Used() > 0 && !p.stopped
	return !p.scanning
}

// scanOnce scans all feeds that polls wait for. It returns false if there are none.
func (p *Puller) scanOnce(ctx context.Context) (some bool, err error) {
	select {
	case <-p.wakeScan: // this scan is for those polls too
	default:
	}
	p.mu.Lock()
	queues := p.allQueues()
	p.mu.Unlock()
	var batch scanBatch
	for _, q := range queues {
		batch.add(q, p.Bound.Now())
		if len(batch.feeds) >= maxFeeds {
			some = true
			if err := p.scanFeeds(ctx, &batch); err != nil {
				return some, err
			}
			batch = scanBatch{}
		}
	}
	if len(batch.feeds) == 0 {
		return some, nil
	}
	return true, p.scanFeeds(ctx, &batch)
}

// scanBatch is the feeds of one statement.
type scanBatch struct {
	feeds  []job.Feed
	queues []*queue // of each feed
	skip   skipSet
	// depth is how many runs of a feed the statement reads: enough to find one that is not skipped.
	depth int
}

// add adds the feeds of a queue that polls wait for. It also wakes the queue if blocked runs are to be
// retried.
func (b *scanBatch) add(q *queue, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.polls) == 0 {
		return
	}
	elapsed, handlers, skip := clock.Elapsed(), q.awaited(), q.skipped()
	for _, k := range feedsOf(handlers) {
		b.feeds = append(b.feeds, k.feed(q.id, q.feeds[k].scanFrom(now, elapsed)))
		b.queues = append(b.queues, q)
	}
	if b.skip == nil {
		b.skip = skipSet{}
	}
	maps.Copy(b.skip, skip)
	b.depth = max(b.depth, len(skip)+1)
	for k, run := range q.blocked {
		if skip[k] && run.retry <= elapsed && handlers[run.due.Handler] {
			q.setClaimable()
		}
	}
	if q.claimable {
		signal(q.wake)
	}
}

// scanFeeds sends the statement, and wakes the queues that have due runs.
func (p *Puller) scanFeeds(ctx context.Context, b *scanBatch) error {
	ctx, cancel := context.WithTimeout(ctx, claimLimit)
	defer cancel()
	params := job.ScanParams{Ahead: scanAhead, Limit: b.depth, Skip: b.skip.filter()}
	now, first, err := p.Store.ScanDue(ctx, b.feeds, params)
	p.counters.scans.Add(1)
	if err != nil {
		return err
	}
	for i, q := range b.queues {
		q.scanned(feedKey{b.feeds[i].Handler, b.feeds[i].Priority}, now, first[i])
	}
	return nil
}

// scanned moves the mark of a feed, and wakes the queue if the feed has a due run.
func (q *queue) scanned(k feedKey, now, first time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.feeds[k]; f != nil {
		f.scanned(now, first)
	}
	switch {
	case first.IsZero():
	case !first.After(now):
		q.setClaimable()
	default:
		q.setClaimableAt(first)
	}
}
