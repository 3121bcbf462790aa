package job

import (
	"cmp"
	"slices"
	"time"
)

// LimitKind is what a limit is of. The numbers are stored.
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

// QueueLimit names that of a queue.
func QueueLimit(queue int32) Limit { return Limit{LimitQueue, int64(queue)} }

// KeyLimit names that of a concurrency key.
func KeyLimit(id int64) Limit { return Limit{LimitKey, id} }

// Candidate is a run that is due and needs a place under each of its limits.
type Candidate struct {
	Queue    int32
	Key      int64 // Concurrency.ID; 0: none
	KeyMax   int32
	Priority int16
	RunAt    time.Time
}

// Limits that an applicant may fall under.
func (a *Candidate) Limits() []Limit {
	out := []Limit{QueueLimit(a.Queue)}
	if a.Key != 0 {
		out = append(out, KeyLimit(a.Key))
	}
	return out
}

// Capacity is what there is of a limit, as one transaction sees it.
type Capacity struct {
	Locked  bool // false: another transaction gives its places away
	Running int  // live runs that have one
	Limits  QueueLimits
	Bucket  Bucket  // of a rate
	Ahead   *Waiter // the first of those that wait on other nodes; nil: none
}

// Waiter is a run that waits for a place on another node.
type Waiter struct {
	Priority int16
	RunAt    time.Time
}

// Refusal is why a run has to wait.
type Refusal struct {
	Limit   Limit // that keeps it; the zero value: none, it may start
	Running int   // live runs under that limit
	// After is how long it is useless to ask; 0: until a place is free, which
	// nobody can tell.
	After time.Duration
}

// busyPause is how long a place is given away.
const busyPause = 5 * time.Millisecond

// GrantPermits decides which of the applicants may start: by priority, then by time, as long
// as there is room under each of their limits. It takes the places out of the
// rooms. A queue that is not among the rooms has no limit. One applicant that is
// kept by its key takes no place of its queue, and keeps nobody behind it.
func GrantPermits(rooms map[Limit]*Capacity, from []Candidate, now time.Time) []Refusal {
	for _, r := range rooms {
		if r.Limits.Rate.Count > 0 {
			r.Bucket = r.Bucket.Fill(r.Limits, now)
		}
	}
	order := make([]int, len(from))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := &from[x], &from[y]
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.RunAt.Compare(b.RunAt))
	})
	out := make([]Refusal, len(from))
	for _, i := range order {
		a := &from[i]
		if out[i] = a.refused(rooms, now); out[i] != (Refusal{}) {
			continue
		}
		for _, l := range a.Limits() {
			if r := rooms[l]; r != nil {
				r.Running++
				r.Bucket.Tokens--
			}
		}
	}
	return out
}

func (a *Candidate) refused(rooms map[Limit]*Capacity, now time.Time) Refusal {
	for _, l := range a.Limits() {
		r := rooms[l]
		if r == nil {
			continue
		}
		full := Refusal{Limit: l, Running: r.Running}
		switch {
		case !r.Locked:
			full.After = busyPause
		case l.Kind == LimitKey && r.Running >= int(max(a.KeyMax, 1)), r.Limits.MaxRunning > 0 && r.Running >= int(r.Limits.MaxRunning):
		case r.Limits.Rate.Count > 0 && r.Bucket.Tokens < 1:
			full.After = r.Bucket.after(r.Limits)
		case r.Ahead != nil && a.yields(*r.Ahead, now):
		default:
			continue
		}
		return full
	}
	return Refusal{}
}

// yields says whether a run leaves its place to one on another node: to a higher
// priority always; to one that is older only if it is so by much, for a place
// stays empty until the other node looks.
func (a *Candidate) yields(to Waiter, now time.Time) bool {
	if to.Priority != a.Priority {
		return to.Priority > a.Priority
	}
	return a.RunAt.Sub(to.RunAt) > max(time.Second, now.Sub(a.RunAt)/8)
}

// Refused is a run that has to wait.
type Refused struct {
	Key Key
	Refusal
}

// WaiterReport is what waits for a queue on a node.
type WaiterReport struct {
	Queue    int32
	Waiting  int32
	Priority int16     // the highest that could start if there were a place; -1: none
	RunAt    time.Time // the earliest of those
}
