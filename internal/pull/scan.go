package pull

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

const (
	scanPause = 200 * time.Millisecond
	// scanAhead is how early a scan sees a run, so that the claim is on time.
	scanAhead = time.Second
	maxFeeds  = 2000 // in one statement
	// maxRoundFeeds is how many feeds of a namespace one round scans, and those of one queue more. Its other queues have
	// their turn in the next round, so that the rounds of others stay short.
	maxRoundFeeds = 20_000
	// deepLimit is how long the scans of a namespace that skip runs may take in a round, and how late in a round those of
	// another namespace begin. Others wait for the next round.
	deepLimit = 2 * time.Second
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

// anyUnknown reports whether one of the handlers was never scanned. The caller holds the lock.
func (q *queue) anyUnknown(handlers []string) bool {
	return slices.ContainsFunc(handlers, func(h string) bool { return q.feeds[feedKey{h, 0}].mark.IsZero() })
}

// endScan ends the scan, unless polls wait.
func (p *Puller) endScan() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scanning = p.polls.Used() > 0 && !p.stopped
	return !p.scanning
}

// scanOnce scans the feeds that polls wait for. It returns false if there are none.
func (p *Puller) scanOnce(ctx context.Context) (some bool, err error) {
	select {
	case <-p.wakeScan: // this scan is for those polls too
	default:
	}
	p.mu.Lock()
	queues := p.allQueues()
	p.mu.Unlock()
	// Those that had no turn in the last round begin.
	slices.SortFunc(queues, func(a, b *queue) int { return cmp.Compare(a.lastScan, b.lastScan) })
	var plain scanBatches
	deep := map[uuid.UUID]*scanBatches{}
	turn := map[uuid.UUID]int{} // how many feeds of a namespace
	for _, q := range queues {
		if turn[q.namespace] >= maxRoundFeeds {
			continue
		}
		q.lastScan = clock.Elapsed()
		feeds, skip := q.toScan(p.Bound.Now())
		turn[q.namespace] += len(feeds)
		b := &plain
		if len(skip) > 0 {
			if deep[q.namespace] == nil {
				deep[q.namespace] = &scanBatches{}
			}
			b = deep[q.namespace]
		}
		b.add(q, feeds, skip)
	}
	failed, err := p.scanBatches(ctx, plain, time.Duration(len(plain))*claimLimit)
	sent, begun := len(plain), clock.Elapsed()
	for _, namespace := range p.inTurn(deep) {
		b := deep[namespace]
		if clock.Elapsed()-begun >= deepLimit {
			b.postpone()
			continue
		}
		p.lastDeep = namespace
		n, failure := p.scanBatches(ctx, *b, deepLimit)
		failed, sent, err = failed+n, sent+len(*b), errors.Join(err, failure)
	}
	if err != nil && failed < sent { // the database answers: what is wrong concerns one namespace
		p.Observe.Failed("worker_scan") // the loop counts only rounds that fail wholly
		err = nil
	}
	return sent > 0, err
}

// inTurn returns namespaces whose scans skip runs, beginning with the one after the last that had a turn.
func (p *Puller) inTurn(deep map[uuid.UUID]*scanBatches) []uuid.UUID {
	all := slices.SortedFunc(maps.Keys(deep), compareIDs)
	next, had := slices.BinarySearchFunc(all, p.lastDeep, compareIDs)
	if had {
		next++
	}
	return slices.Concat(all[next:], all[:next])
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// scanBatches sends statements within a time, and returns how many failed. A scan that skips runs and fails may have
// missed others, so its queues claim without it.
func (p *Puller) scanBatches(ctx context.Context, all scanBatches, within time.Duration) (failed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, b := range all {
		failure := p.scanFeeds(ctx, b)
		if failure == nil {
			continue
		}
		failed, err = failed+1, failure
		for _, q := range slices.Compact(b.queues) {
			q.lastScan = 0 // it is the first of the next round
			if b.depth > 1 {
				q.claimUnscanned()
			}
		}
	}
	return failed, err
}

func (q *queue) claimUnscanned() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setClaimable()
}

// scanBatches are the feeds of several statements.
type scanBatches []*scanBatch

func (s *scanBatches) add(q *queue, feeds []job.Feed, skip skipSet) {
	if len(feeds) == 0 {
		return
	}
	if n := len(*s); n == 0 || len((*s)[n-1].feeds) >= maxFeeds {
		*s = append(*s, &scanBatch{skip: skipSet{}})
	}
	b := (*s)[len(*s)-1]
	b.feeds = append(b.feeds, feeds...)
	b.queues = append(b.queues, slices.Repeat([]*queue{q}, len(feeds))...)
	maps.Copy(b.skip, skip)
	b.depth = max(b.depth, len(skip)+1)
}

// postpone leaves the scans to the next round.
func (s *scanBatches) postpone() {
	for _, b := range *s {
		for i, q := range b.queues {
			q.lastScan = 0
			if b.feeds[i].Mark.IsZero() {
				q.scanFully(feedKey{b.feeds[i].Handler, b.feeds[i].Priority})
			}
		}
	}
}

// scanFully has the next scan start at the beginning of a feed.
func (q *queue) scanFully(k feedKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.feeds[k]; f != nil {
		f.full -= fullEvery
	}
}

// scanBatch is the feeds of one statement. The queues of a namespace that skip runs have statements of their own, because
// these read more.
type scanBatch struct {
	feeds  []job.Feed
	queues []*queue // of each feed
	skip   skipSet
	// depth is how many runs of a feed the statement reads: enough to find one that is not skipped.
	depth int
}

// toScan returns the feeds that polls wait for, and the runs to skip. It also wakes the queue if blocked runs are to be
// retried.
func (q *queue) toScan(now time.Time) (feeds []job.Feed, skip skipSet) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.polls) == 0 {
		return nil, nil
	}
	elapsed, handlers := clock.Elapsed(), q.awaited()
	skip, q.lateScan = q.skipped(), q.late
	for _, k := range feedsOf(handlers) {
		feeds = append(feeds, k.feed(q.id, q.feeds[k].scanFrom(now, elapsed)))
	}
	if len(q.retryable(skip, handlers)) > 0 {
		q.setClaimable()
	}
	for k, run := range q.blocked {
		if skip[k] && !handlers[run.due.Handler] { // its feed is not scanned
			delete(skip, k)
		}
	}
	if q.claimable {
		signal(q.wake)
	}
	return feeds, skip
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
		q.scanned(b.feeds[i], now, first[i])
	}
	return nil
}

// scanned moves the mark of a feed, and wakes the queue if the feed has a due run.
func (q *queue) scanned(read job.Feed, now, first time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.feeds[feedKey{read.Handler, read.Priority}]; f != nil {
		f.read(read.Mark, now, first, q.late != q.lateScan)
	}
	switch {
	case first.IsZero():
	case !first.After(now):
		q.setClaimable()
	default:
		q.setClaimableAt(first)
	}
}
