package pull

import "sync/atomic"

type counters struct {
	scans, claims, claimed, reported, stale atomic.Int64
}

// LoopNames returns the names of all loops whose failures are observed.
func LoopNames() []string { return []string{"worker_claim", "worker_scan", "worker_return"} }

// Counts is what a Puller has done so far, and what it has now.
type Counts struct {
	Scans    int64 // statements that looked for due runs
	Claims   int64
	Claimed  int64 // runs
	Reported int64 // reports that were accepted
	Stale    int64 // reports that were not, because the attempt was no longer the session's

	Waiting   int // long polls
	Reporting int // reports that wait to be written
	Feeds     int // that the node has a mark for
}

// Counts returns what was done so far.
func (p *Puller) Counts() Counts {
	p.mu.Lock()
	queues := p.allQueues()
	p.mu.Unlock()
	feeds := 0
	for _, q := range queues {
		feeds += q.feedCount()
	}
	c := &p.counters
	return Counts{
		Scans: c.scans.Load(), Claims: c.claims.Load(), Claimed: c.claimed.Load(),
		Reported: c.reported.Load(), Stale: c.stale.Load(),
		Waiting: int(p.polls.Used()), Reporting: int(p.reports.share.Used()), Feeds: feeds,
	}
}
