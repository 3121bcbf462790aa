package job

import "time"

// AdmitInput is a due run and what the other runs of its job are doing.
type AdmitInput struct {
	Overlap  Overlap // with default
	Deadline Duration
	JobState State

	Origin  Origin
	DueAt   time.Time
	Attempt int16 // attempts so far; above 0, this is a retry or a redrive
	// Deferred: the attempts so far were deferred, so the run has never started and its deadline counts.
	Deferred bool

	Running int  // other runs of the job that are running or waiting
	Busy    bool // one of them had started when this run came due
	Ahead   int  // older runs of the job that are due and pending
	Now     time.Time
}

// Admission is whether a run may start.
type Admission struct {
	Verdict Verdict
	Reason  Reason // of a skip; for a replace, why the replaced run ended
}

// Verdict on a due run.
type Verdict int

// The verdicts.
const (
	AdmitStart   Verdict = 1
	AdmitWait    Verdict = 2 // stay pending; ask again when another run of the job ends
	AdmitSkip    Verdict = 3
	AdmitReplace Verdict = 4 // cancel the live runs, then start
)

// AdmitRule says what a claim must check before it starts a run of a job. The numbers are stored in job.admit and
// run.admit.
type AdmitRule int16

// The rules. If a run does not meet its rule, Admit decides about it.
const (
	AdmitFreely  AdmitRule = 0 // nothing to check
	AdmitIfAlone AdmitRule = 1 // start if no other run of the job is live
	AdmitIfFirst AdmitRule = 3 // start if no other run of the job is live, and no older one is due and pending

	AdmitInTime AdmitRule = 4 // added to another rule: start if the deadline has not passed
)

// AdmitRule returns the cheapest rule that enforces the policy. The policy must have its defaults.
func (p Policy) AdmitRule() (rule AdmitRule) {
	switch p.Overlap {
	case OverlapAllow:
		rule = AdmitFreely
	case OverlapSkip:
		rule = AdmitIfAlone
	default:
		rule = AdmitIfFirst
	}
	if p.Deadline > 0 {
		rule += AdmitInTime
	}
	return rule
}

// Exclusive reports whether what other runs of the job do matters.
func (r AdmitRule) Exclusive() bool { return r&^AdmitInTime != AdmitFreely }

// Admit decides whether a due run may start.
//
// A run that has begun is carried through: a retry is not skipped because its job was paused, its deadline passed
// (deadlines limit the first start) or a newer run began. It waits for the newer run. Only overlap replace lets the
// newer run end it.
func Admit(in AdmitInput) Admission {
	if at := in.Expires(); !at.IsZero() && in.Now.After(at) {
		return Admission{AdmitSkip, ReasonExpired}
	}
	if in.Attempt > 0 {
		return admitRetry(in)
	}
	if in.JobState == Paused && in.bySchedule() {
		return Admission{AdmitSkip, ReasonPaused}
	}
	return in.overlap()
}

// Expires is when the deadline of a run passes that has not started; zero: never.
func (in *AdmitInput) Expires() (at time.Time) {
	started := in.Attempt > 0 && !in.Deferred
	if !started && in.Deadline > 0 && in.Origin.HasDeadline() {
		at = in.DueAt.Add(time.Duration(in.Deadline))
	}
	return at
}

// HasDeadline exempts backfills and redrives: a user asked for them long after the due time.
func (o Origin) HasDeadline() bool { return o != FromBackfill && o != FromRedrive }

// bySchedule is false for runs that a user requested. Those run even if the job is paused.
func (in *AdmitInput) bySchedule() bool {
	return in.Origin == FromSchedule || in.Origin == FromMissed
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
func (in *AdmitInput) overlap() Admission {
	live, ahead := in.Running > 0, in.Ahead > 0
	switch {
	case in.Overlap == OverlapAllow, !live && !ahead:
		return Admission{AdmitStart, ReasonNone}
	case in.Origin != FromSchedule && (in.Origin != FromTrigger || in.Overlap != OverlapReplace):
		return Admission{AdmitWait, ReasonNone}
	case in.Overlap == OverlapQueueAll && in.Ahead >= MaxQueued:
		return Admission{AdmitSkip, ReasonOverlapLimit}
	case !live:
		return Admission{AdmitWait, ReasonNone}
	}
	switch in.Overlap {
	case OverlapQueueAll:
		return Admission{AdmitWait, ReasonNone}
	case OverlapQueue:
		if ahead && in.Busy || in.Ahead >= MaxQueued {
			return Admission{AdmitSkip, ReasonOverlapLimit}
		}
		return Admission{AdmitWait, ReasonNone}
	case OverlapReplace:
		if ahead {
			return Admission{AdmitWait, ReasonNone}
		}
		return Admission{AdmitReplace, ReasonReplaced}
	default: // OverlapSkip
		switch {
		case in.Busy:
			return Admission{AdmitSkip, ReasonOverlap}
		case in.Ahead >= MaxQueued:
			return Admission{AdmitSkip, ReasonOverlapLimit}
		}
		return Admission{AdmitWait, ReasonNone}
	}
}

func admitRetry(in AdmitInput) Admission {
	switch {
	case in.Overlap == OverlapAllow || in.Running == 0 && in.Ahead == 0:
		return Admission{AdmitStart, ReasonNone}
	case in.Overlap == OverlapReplace && in.Running > 0 && in.Origin != FromRedrive:
		return Admission{AdmitSkip, ReasonReplaced}
	default:
		return Admission{AdmitWait, ReasonNone}
	}
}
