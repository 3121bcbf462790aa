package job

import (
	"cmp"
	"slices"
	"time"
)

// LimitKind is what a limit belongs to. The numbers are stored.
type LimitKind int16

// The kinds of limits.
const (
	LimitQueue LimitKind = 1
	LimitKey   LimitKind = 2
)

// Limit names a queue or a concurrency key.
type Limit struct {
	Kind LimitKind
	ID   int64
}

// QueueLimit names the limit of a queue.
func QueueLimit(queue int32) Limit { return Limit{LimitQueue, int64(queue)} }

// KeyLimit names the limit of a concurrency key.
func KeyLimit(id int64) Limit { return Limit{LimitKey, id} }

// Candidate is a due run that needs a permit of each of its limits.
type Candidate struct {
	Queue    int32
	Key      int64 // Concurrency.ID; 0 if it has none
	KeyMax   int32
	Priority int16
	RunAt    time.Time
}

// Limits returns the limits that may apply to the candidate.
func (c *Candidate) Limits() []Limit {
	out := []Limit{QueueLimit(c.Queue)}
	if c.Key != 0 {
		out = append(out, KeyLimit(c.Key))
	}
	return out
}

// Capacity is the state of a limit as one transaction sees it.
type Capacity struct {
	Locked  bool // false if another transaction is granting permits of this limit
	Running int  // live runs that hold a permit
	Limits  QueueLimits
	Bucket  Bucket // of a rate
	// Quota is that of the queue's namespace, which its queues share; nil if there is none.
	Quota *RunQuota
	Ahead *Waiter // the first run that waits on another node; nil if there is none
}

// RunQuota is how many runs all queues of a namespace together may start per minute. After a quiet minute, that many may
// start at once.
type RunQuota struct {
	PerMinute int32
	Bucket    Bucket
}

func (q *RunQuota) limits() QueueLimits {
	return QueueLimits{Rate: Rate{q.PerMinute, 60}, Burst: q.PerMinute}
}

// Left returns how many runs may start at an instant.
func (q *RunQuota) Left(now time.Time) int64 { return int64(q.Bucket.Fill(q.limits(), now).Tokens) }

// Waiter is a run that waits for a permit on another node.
type Waiter struct {
	Priority int16
	RunAt    time.Time
}

// Refusal says why a run must wait. The zero value means that it may start.
type Refusal struct {
	Limit   Limit // that has no permit left
	Running int   // live runs under that limit
	KeyMax  int32 // the candidate's maximum, if the limit is a concurrency key
	// After is when to ask again. 0 means when a run under the limit ends, which cannot be predicted.
	After time.Duration
	Busy  bool // another transaction has the lock of the limit, and there may be many permits
	Quota bool // the quota of the namespace refused it, which all of its queues share
}

// busyPause is how long another transaction usually takes to grant permits.
const busyPause = 5 * time.Millisecond

// GrantPermits decides which candidates may start: by priority, then by run time, as long as each of their limits has
// capacity. It deducts the permits from capacity. A queue that is missing in capacity has no limit. A candidate that
// its key refuses takes no permit of its queue and does not block the candidates behind it.
func GrantPermits(capacity map[Limit]*Capacity, candidates []Candidate, now time.Time) []Refusal {
	for _, c := range capacity {
		if c.Limits.Rate.Count > 0 {
			c.Bucket = c.Bucket.Fill(c.Limits, now)
		}
		if c.Quota != nil {
			c.Quota.Bucket = c.Quota.Bucket.Fill(c.Quota.limits(), now)
		}
	}
	order := make([]int, len(candidates))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := &candidates[x], &candidates[y]
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.RunAt.Compare(b.RunAt))
	})
	out := make([]Refusal, len(candidates))
	for _, i := range order {
		candidate := &candidates[i]
		if out[i] = candidate.refusal(capacity, now); out[i] != (Refusal{}) {
			continue
		}
		for _, l := range candidate.Limits() {
			if c := capacity[l]; c != nil {
				c.Running++
				c.Bucket.Tokens--
				if c.Quota != nil {
					c.Quota.Bucket.Tokens--
				}
			}
		}
	}
	return out
}

// refusal returns the first limit that keeps the candidate from starting.
func (c *Candidate) refusal(capacity map[Limit]*Capacity, now time.Time) Refusal {
	for _, l := range c.Limits() {
		limit := capacity[l]
		if limit == nil {
			continue
		}
		refusal := Refusal{Limit: l, Running: limit.Running}
		if l.Kind == LimitKey {
			refusal.KeyMax = c.KeyMax
		}
		switch {
		case !limit.Locked:
			refusal.After, refusal.Busy = busyPause, true
		case l.Kind == LimitKey && limit.Running >= int(max(c.KeyMax, 1)), limit.full():
		case limit.Limits.Rate.Count > 0 && limit.Bucket.Tokens < 1:
			refusal.After = limit.Bucket.after(limit.Limits)
		case limit.Quota != nil && limit.Quota.Bucket.Tokens < 1:
			refusal.After, refusal.Quota = limit.Quota.Bucket.after(limit.Quota.limits()), true
		case limit.Ahead != nil && c.yields(*limit.Ahead, limit.left(l.Kind, c), now):
		default:
			continue
		}
		return refusal
	}
	return Refusal{}
}

// full reports whether a queue has reached max_running.
func (c *Capacity) full() bool {
	return c.Limits.MaxRunning > 0 && c.Running >= int(c.Limits.MaxRunning)
}

// reserved is how many permits are left to older runs on another node, so that it can start some when it asks. A run does
// not give way to them while there are more: after an outage, permits would stay unused until then.
const reserved = 50

// left is how many permits there are for runs like the candidate.
func (c *Capacity) left(kind LimitKind, of *Candidate) int {
	left := reserved + 1
	if kind == LimitKey {
		left = min(left, int(max(of.KeyMax, 1))-c.Running)
	}
	if c.Limits.MaxRunning > 0 {
		left = min(left, int(c.Limits.MaxRunning)-c.Running)
	}
	if c.Limits.Rate.Count > 0 {
		left = min(left, int(c.Bucket.Tokens))
	}
	if c.Quota != nil {
		left = min(left, int(c.Quota.Bucket.Tokens))
	}
	return left
}

// yields reports whether a run leaves one of the permits that are left to a run on another node. It always yields to a
// higher priority. It yields to an older run only if that is much older and permits are scarce, because the permit stays
// unused until the other node polls.
func (c *Candidate) yields(to Waiter, left int, now time.Time) bool {
	if to.Priority != c.Priority {
		return to.Priority > c.Priority
	}
	return left <= reserved && c.RunAt.Sub(to.RunAt) > max(time.Second, now.Sub(c.RunAt)/8)
}

// Refused is a run that must wait.
type Refused struct {
	Key Key
	Refusal
}

// WaiterReport is what a node publishes about the runs that wait for a queue on it.
type WaiterReport struct {
	Queue    int32
	Waiting  int32
	Priority int16     // the highest that could start if a permit were free; -1 if none could
	RunAt    time.Time // the earliest run time of that priority
}
