package start

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// Input is a due run and what the other runs of its job are doing.
type Input struct {
	Overlap  job.Overlap // with default
	Deadline job.Duration
	JobState job.State

	Origin  job.Origin
	DueAt   time.Time
	Attempt int16 // attempts so far; above 0, this is a retry or a redrive
	// Deferred: the attempts so far were deferred, so the run has never started and its deadline counts.
	Deferred bool

	Running int  // other runs of the job that are running or waiting
	Busy    bool // one of them had started when this run came due
	Ahead   int  // older runs of the job that are due and pending
	Now     time.Time
}

// Decision is whether a run may start.
type Decision struct {
	Verdict Verdict
	Reason  job.Reason // of a skip; for a replace, why the replaced run ended
}

// Verdict on a due run.
type Verdict int

// The verdicts.
const (
	Starts   Verdict = 1
	Waits    Verdict = 2 // stay pending; ask again when another run of the job ends
	Skips    Verdict = 3
	Replaces Verdict = 4 // cancel the live runs, then start
)

// Decide says whether a due run may start.
//
// A run that has begun is carried through: a retry is not skipped because its job was paused, its deadline passed
// (deadlines limit the first start) or a newer run began. It waits for the newer run. Only overlap replace lets the
// newer run end it.
func Decide(in Input) Decision {
	if at := in.expires(); !at.IsZero() && in.Now.After(at) {
		return Decision{Skips, job.ReasonExpired}
	}
	if in.Attempt > 0 {
		return decideRetry(in)
	}
	if in.JobState == job.Paused && in.bySchedule() {
		return Decision{Skips, job.ReasonPaused}
	}
	return in.overlap()
}

// expires is when the deadline of a run passes that has not started; zero: never.
func (in *Input) expires() (at time.Time) {
	if started := in.Attempt > 0 && !in.Deferred; !started {
		at = job.Policy{Deadline: in.Deadline}.Expires(in.Origin, in.DueAt)
	}
	return at
}

// bySchedule is false for runs that a user requested. Those run even if the job is paused.
func (in *Input) bySchedule() bool {
	return in.Origin == job.FromSchedule || in.Origin == job.FromMissed
}

// overlap applies the overlap policy. A run waits under every policy, instead of being dropped, if
//   - older runs are pending and none is live: nothing overlaps yet. So the oldest run starts first, and an older run
//     never replaces a newer one.
//   - it is not an occurrence at its time, but was requested, or missed and caught up: those start one after the
//     other. With replace, a trigger is the newest run, so it replaces; if it waited, the next occurrence would wait
//     for it and end it as soon as it starts.
//
// With skip and queue it also waits if no other run had started when it came due, because then both are late, after a
// takeover for example, and neither overlaps by the schedule. While a run is live, those that come due are skipped, so
// the line does not grow; MaxQueued bounds it if a limit keeps runs from starting.
func (in *Input) overlap() Decision {
	live, ahead := in.Running > 0, in.Ahead > 0
	switch {
	case in.Overlap == job.OverlapAllow, !live && !ahead:
		return Decision{Starts, job.ReasonNone}
	case in.Origin != job.FromSchedule && (in.Origin != job.FromTrigger || in.Overlap != job.OverlapReplace):
		return Decision{Waits, job.ReasonNone}
	case in.Overlap == job.OverlapQueueAll && in.Ahead >= job.MaxQueued:
		return Decision{Skips, job.ReasonOverlapLimit}
	case !live:
		return Decision{Waits, job.ReasonNone}
	}
	switch in.Overlap {
	case job.OverlapQueueAll:
		return Decision{Waits, job.ReasonNone}
	case job.OverlapQueue:
		if ahead && in.Busy || in.Ahead >= job.MaxQueued {
			return Decision{Skips, job.ReasonOverlapLimit}
		}
		return Decision{Waits, job.ReasonNone}
	case job.OverlapReplace:
		if ahead {
			return Decision{Waits, job.ReasonNone}
		}
		return Decision{Replaces, job.ReasonReplaced}
	default: // job.OverlapSkip
		switch {
		case in.Busy:
			return Decision{Skips, job.ReasonOverlap}
		case in.Ahead >= job.MaxQueued:
			return Decision{Skips, job.ReasonOverlapLimit}
		}
		return Decision{Waits, job.ReasonNone}
	}
}

func decideRetry(in Input) Decision {
	switch {
	case in.Overlap == job.OverlapAllow || in.Running == 0 && in.Ahead == 0:
		return Decision{Starts, job.ReasonNone}
	case in.Overlap == job.OverlapReplace && in.Running > 0 && in.Origin != job.FromRedrive:
		return Decision{Skips, job.ReasonReplaced}
	default:
		return Decision{Waits, job.ReasonNone}
	}
}

// busyPause is how long another transaction usually takes to grant permits.
const busyPause = 5 * time.Millisecond

// Grant decides which candidates may start: by priority, then by run time, as long as each of their limits has
// capacity. It deducts the permits from capacity. A queue that is missing in capacity has no limit. A candidate that
// its key refuses takes no permit of its queue and does not block the candidates behind it.
func Grant(capacity map[job.Limit]*job.Capacity, candidates []job.Candidate, now time.Time) []job.Refusal {
	for _, c := range capacity {
		if c.Limits.Rate.Count > 0 {
			c.Bucket = c.Bucket.Fill(c.Limits, now)
		}
		if c.Quota != nil {
			c.Quota.Bucket = c.Quota.Bucket.Fill(c.Quota.Limits(), now)
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
	out := make([]job.Refusal, len(candidates))
	for _, i := range order {
		candidate := &candidates[i]
		if out[i] = refuse(candidate, capacity, now); out[i] != (job.Refusal{}) {
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

// refuse returns the first limit that keeps the candidate from starting.
func refuse(c *job.Candidate, capacity map[job.Limit]*job.Capacity, now time.Time) job.Refusal {
	for _, l := range c.Limits() {
		limit := capacity[l]
		if limit == nil {
			continue
		}
		refusal := job.Refusal{Limit: l, Running: limit.Running}
		if l.Kind == job.LimitKey {
			refusal.KeyMax = c.KeyMax
		}
		switch {
		case !limit.Locked:
			refusal.After, refusal.Busy = busyPause, true
		case l.Kind == job.LimitKey && limit.Running >= int(max(c.KeyMax, 1)), full(limit):
		case limit.Limits.Rate.Count > 0 && limit.Bucket.Tokens < 1:
			refusal.After = limit.Bucket.Next(limit.Limits)
		case limit.Quota != nil && limit.Quota.Bucket.Tokens < 1:
			refusal.After, refusal.Quota = limit.Quota.Bucket.Next(limit.Quota.Limits()), true
		case limit.Ahead != nil && yields(c, *limit.Ahead, left(limit, l.Kind, c), now):
		default:
			continue
		}
		return refusal
	}
	return job.Refusal{}
}

// full reports whether a queue has reached max_running.
func full(c *job.Capacity) bool {
	return c.Limits.MaxRunning > 0 && c.Running >= int(c.Limits.MaxRunning)
}

// reserved is how many permits are left to older runs on another node, so that it can start some when it asks. A run does
// not give way to them while there are more: after an outage, permits would stay unused until then.
const reserved = 50

// left is how many permits there are for runs like the candidate.
func left(c *job.Capacity, kind job.LimitKind, of *job.Candidate) int {
	left := reserved + 1
	if kind == job.LimitKey {
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
func yields(c *job.Candidate, to job.Waiter, left int, now time.Time) bool {
	if to.Priority != c.Priority {
		return to.Priority > c.Priority
	}
	return left <= reserved && c.RunAt.Sub(to.RunAt) > max(time.Second, now.Sub(c.RunAt)/8)
}
