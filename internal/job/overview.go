package job

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// LateNow is how long a run must have been due to count as late in an overview. An overview and what it is made of are
// together at most as much older as is missing to 3 seconds, so that each run that has been due for 3 seconds is in it.
const LateNow = 1500 * time.Millisecond

// LiveCount is how many live runs a queue has, by state.
type LiveCount struct {
	Queue                       int32
	Running, Accepted, Retrying int64
	Due                         int64     // may start, and have not
	Late                        int64     // of those, for more than [LateNow]
	DuePulled                   int64     // of those that are due, for workers
	OldestDue                   time.Time // since when the first of those that are due could have started; zero if none is
	More                        bool      // there are more than were read: each number may be too low, OldestDue is not

	Deferred       int64     // of those that are due, those that wait because of backpressure
	DeferredFrom   time.Time // since when the first of them waits
	DeferredReason string    // of one of them
}

// Add adds the runs of another queue.
func (c *LiveCount) Add(o LiveCount) {
	c.Running, c.Accepted, c.Retrying = c.Running+o.Running, c.Accepted+o.Accepted, c.Retrying+o.Retrying
	c.Due, c.Late, c.DuePulled, c.More = c.Due+o.Due, c.Late+o.Late, c.DuePulled+o.DuePulled, c.More || o.More
	if !o.OldestDue.IsZero() && (c.OldestDue.IsZero() || o.OldestDue.Before(c.OldestDue)) {
		c.OldestDue = o.OldestDue
	}
}

// Live is the live runs of all queues of the cluster.
type Live struct {
	Queues     map[int32]LiveCount
	Namespaces map[uuid.UUID]LiveCount // the sums of their queues

	Broken     map[uuid.UUID]int64 // schedules that cannot be planned, by namespace
	BrokenMore bool                // there are more
}

// The bounds of an overview.
const (
	OverviewMinutes  = 60
	MaxOverviewCount = 10_000  // dead letters, paused jobs and queues that are counted
	MaxSearched      = 1000    // queues whose history and dead letters are read
	MaxBroken        = 100_000 // schedules that are counted, of all namespaces
	MaxFindings      = 1000    // findings of the audit that are counted
	MaxFailing       = 5       // jobs that failed most
	MaxFailures      = 50_000  // failures of the last hour that are counted to find them
	MaxSkips         = 50_000  // skips of the last hour that are counted
	MaxAttention     = 20
	MaxCauses        = 3 // of dead letters that need attention
)

// Capped is a count that may have stopped at its limit.
type Capped struct {
	Count int64
	More  bool // there are more than Count
}

// UpTo is a count of at most limit + 1 rows.
func UpTo(counted, limit int64) Capped { return Capped{min(counted, limit), counted > limit} }

// OverviewQueue is a queue as an overview needs it.
type OverviewQueue struct {
	ID       int32
	Name     string
	Paused   bool
	PausedAt time.Time
	Workers  int64 // live sessions of workers
}

// FailingJob is a job whose runs failed in the last hour.
type FailingJob struct {
	ID      uuid.UUID
	Name    string // empty: it is deleted
	Failed  int64
	Message string // of the last failure
	Recent  Recent
}

// ReasonCount is how many occurrences were skipped for a reason.
type ReasonCount struct {
	Reason Reason
	Count  int64
}

// Overview is how a namespace is doing. Minutes are statistics; all else is from the ledger.
type Overview struct {
	Namespace    uuid.UUID
	Now          time.Time
	ClockTrusted bool
	Queues       []OverviewQueue
	DeadLetters  Capped
	PausedJobs   Capped
	PausedBelfry Capped    // of those, the jobs that Belfry paused after failures
	Unowned      int64     // partitions
	HeldUntil    time.Time // runs that were due before are held, because the database was restored; zero: none is
	// Unplanned is how many occurrences are late and have no run yet, because no node planned them: one for each job.
	Unplanned     int64
	UnplannedFrom time.Time // the first due time of those
	Findings      Capped    // of the audit
	HasJobs       bool
	Failing       []FailingJob
	FailingMore   bool // more runs failed than were read
	Skipped       []ReasonCount
	SkippedMore   bool        // more were skipped than were read
	Minutes       []StatPoint // the last one is the current minute
	Audited       int64       // occurrences that the audit judged in these minutes, in all namespaces
	AuditedAt     time.Time   // the last minute in which it did; zero: none
	Causes        []DeadGroup // of dead letters, the largest first
}

// LiveOf returns the live runs of the namespace of an overview. Occurrences that have no run yet, although they are
// due, are late too.
func (o *Overview) LiveOf(live *Live) (sum LiveCount) {
	sum.Add(live.Namespaces[o.Namespace])
	if n := o.Unplanned; n > 0 {
		sum.Add(LiveCount{Due: n, Late: n, OldestDue: o.UnplannedFrom, More: true})
	}
	return sum
}

// BrokenOf returns how many schedules of the namespace cannot be planned.
func (o *Overview) BrokenOf(live *Live) Capped {
	return Capped{live.Broken[o.Namespace], live.BrokenMore}
}

// Attention is something that someone has to look at.
type Attention struct {
	Code  string
	Text  string
	Count int64
	Queue string
	Cause string    // of dead letters
	Since time.Time // when it began; zero: not known
}

// Attention lists what someone has to look at, the most urgent first.
func (o *Overview) Attention(live *Live) (out []Attention) {
	add := func(code string, count int64, queue, text string) *Attention {
		out = append(out, Attention{Code: code, Text: text, Count: count, Queue: queue})
		return &out[len(out)-1]
	}
	if !o.ClockTrusted {
		add("clock_in_doubt", 1, "", "The clock of the database is in doubt: nodes start nothing until it is confirmed.")
	}
	if n := o.Unowned; n > 0 {
		add("partitions_unowned", n, "", atLeast(Capped{n, false}, "partition has no owner: its", "partitions have no owner: their")+
			" runs wait for a node.")
	}
	if until := o.HeldUntil; !until.IsZero() {
		add("restore_held", 1, "", "The database was restored to an earlier time: runs that were due before "+
			until.Format("2006-01-02 15:04 UTC")+" are held. belfry restore status says what to do.").Since = until
	}
	if f := o.Findings; f.Count > 0 {
		add("audit_findings", f.Count, "", "The audit found "+
			atLeast(f, "occurrence that is not in the ledger as it", "occurrences that are not in the ledger as they")+
			" must be. belfry audit ledger lists them.")
	}
	o.attentionToQueues(live, add)
	if p := o.PausedBelfry; p.Count > 0 {
		text := "Belfry paused " + atLeast(p, "job", "jobs") + " after failures"
		if all := o.PausedJobs; all.Count > p.Count {
			text += "; " + atLeast(all, "job is", "jobs are") + " paused in all"
		}
		add("jobs_paused", p.Count, "", text+". belfry job list --state paused lists them.")
	}
	for i := range o.Causes[:min(len(o.Causes), MaxCauses)] {
		g := &o.Causes[i]
		add("dead_letters", g.Count, "", causeText(g)).Cause = g.Last.Cause
	}
	if b := o.BrokenOf(live); b.Count > 0 {
		add("schedules_broken", b.Count, "", atLeast(b, "schedule cannot be planned, so its", "schedules cannot be planned, so their")+
			" jobs do not run. belfry doctor says why.")
	}
	return out[:min(len(out), MaxAttention)]
}

// attentionToQueues adds the queues whose due runs wait: for a worker, for the end of a pause, or for their target.
func (o *Overview) attentionToQueues(live *Live, add func(code string, count int64, queue, text string) *Attention) {
	byDue := slices.Clone(o.Queues)
	slices.SortFunc(byDue, func(a, b OverviewQueue) int {
		return cmp.Or(cmp.Compare(live.Queues[b.ID].Due, live.Queues[a.ID].Due), cmp.Compare(a.Name, b.Name))
	})
	due := func(q OverviewQueue, n int64) string {
		return atLeast(Capped{n, live.Queues[q.ID].More}, "due run waits", "due runs wait")
	}
	since := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return " since " + t.UTC().Format("2006-01-02 15:04 UTC")
	}
	for _, q := range byDue {
		if n := live.Queues[q.ID].DuePulled; n > 0 && q.Workers == 0 && !q.Paused {
			add("no_worker", n, q.Name, fmt.Sprintf("No worker asks for runs of queue %s: %s.", q.Name, due(q, n)))
		}
	}
	for _, q := range byDue {
		if n := live.Queues[q.ID].Due; n > 0 && q.Paused {
			text := fmt.Sprintf("Queue %s is paused%s: %s.", q.Name, since(q.PausedAt), due(q, n))
			add("queue_paused", n, q.Name, text).Since = q.PausedAt
		}
	}
	for _, q := range byDue {
		c := live.Queues[q.ID]
		if c.Deferred == 0 || q.Paused {
			continue
		}
		text := fmt.Sprintf("%s in queue %s%s, because of backpressure: %s.",
			due(q, c.Deferred), q.Name, since(c.DeferredFrom), c.DeferredReason)
		add("host_resting", c.Deferred, q.Name, text).Since = c.DeferredFrom
	}
}

// causeText says what the dead letters of a cause are, and whether their jobs have recovered.
func causeText(g *DeadGroup) string {
	what := cmp.Or(g.Last.Message, string(g.Last.Reason))
	if r := []rune(what); len(r) > maxCauseText {
		what = string(r[:maxCauseText-1]) + "…"
	}
	text := atLeast(Capped{g.Count, g.More}, "dead letter", "dead letters share one cause") + ": " + what
	if s := g.Since; s != nil && s.Succeeded > 0 {
		text = strings.TrimSuffix(text, ".") + ". Since then " +
			atLeast(Capped{s.Succeeded, s.More}, "run of these jobs", "runs of these jobs") + " succeeded."
	}
	return text
}

// maxCauseText is how much of a target's message is shown, in characters.
const maxCauseText = 120

func atLeast(c Capped, one, many string) string {
	switch {
	case c.More:
		return strconv.FormatInt(c.Count, 10) + " or more " + many
	case c.Count == 1:
		return "1 " + one
	}
	return strconv.FormatInt(c.Count, 10) + " " + many
}
