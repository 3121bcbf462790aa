package job

import "time"

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

// Limits are those of a queue with this quota.
func (q *RunQuota) Limits() QueueLimits {
	return QueueLimits{Rate: Rate{q.PerMinute, 60}, Burst: q.PerMinute}
}

// Left returns how many runs may start at an instant.
func (q *RunQuota) Left(now time.Time) int64 { return int64(q.Bucket.Fill(q.Limits(), now).Tokens) }

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

// WaiterReport is what a node publishes about the runs that wait for a queue on it.
type WaiterReport struct {
	Queue    int32
	Waiting  int32
	Priority int16     // the highest that could start if a permit were free; -1 if none could
	RunAt    time.Time // the earliest run time of that priority
}
