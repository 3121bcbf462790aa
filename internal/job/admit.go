package job

import "time"

// AdmitInput is a run that is due, and what else its job is doing.
type AdmitInput struct {
	Overlap  Overlap // with default
	Deadline Duration
	JobState State

	Origin  Origin
	DueAt   time.Time
	Attempt int16 // attempts made so far; more than 0: a retry or a redrive

	Running int // live attempts of other runs of the job: running or waiting
	Ahead   int // older runs of the job that are due and pending
	Now     time.Time
}

// Admission is whether a run may start.
type Admission struct {
	Verdict Verdict
	Reason  Reason // of a skip; of a replace, the reason for the replaced run's end
}

// Verdict on a run that is due.
type Verdict int

// The verdicts.
const (
	AdmitStart   Verdict = 1
	AdmitWait    Verdict = 2 // stay pending; ask again when another run of the job ends
	AdmitSkip    Verdict = 3
	AdmitReplace Verdict = 4 // cancel the live ones, then start
)

// AdmitRule says what a claim has to check before it starts a run of a job. The
// numbers are stored, in job.admit and run.admit.
type AdmitRule int16

// The rules.
const (
	AdmitFreely   AdmitRule = 0 // nothing to check
	AdmitIfAlone  AdmitRule = 1 // start if no other run of the job is live, else ask Admit
	AdmitByPolicy AdmitRule = 2 // always ask Admit
)

// AdmitRule is the cheapest rule that keeps the policy, with defaults filled in.
func (p Policy) AdmitRule() AdmitRule {
	switch {
	case p.Deadline > 0:
		return AdmitByPolicy
	case p.Overlap == OverlapAllow:
		return AdmitFreely
	case p.Overlap == OverlapSkip:
		return AdmitIfAlone
	default:
		return AdmitByPolicy
	}
}

// Admit decides, when a run is due, whether it may start.
//
// A run that has begun is carried to its end: a retry is not skipped because
// its job was paused, its deadline passed (that limits the first start) or a
// newer run began meanwhile; it waits for that one. Only with replace does the
// newer one end it.
func Admit(in AdmitInput) Admission {
	if in.Attempt > 0 {
		return admitRetry(in)
	}
	if in.hasDeadline() && in.Now.Sub(in.DueAt) > time.Duration(in.Deadline) {
		return Admission{AdmitSkip, ReasonExpired}
	}
	if in.JobState == Paused && in.bySchedule() {
		return Admission{AdmitSkip, ReasonPaused}
	}
	return in.overlap()
}

// hasDeadline: a backfill or redrive is late by nature; somebody asked for it.
func (in *AdmitInput) hasDeadline() bool {
	return in.Deadline > 0 && in.Origin != FromBackfill && in.Origin != FromRedrive
}

// bySchedule: what a user asked for by hand runs on a paused job too.
func (in *AdmitInput) bySchedule() bool {
	return in.Origin == FromSchedule || in.Origin == FromMissed
}

// overlap is the table of the policies. A run with others ahead and none live
// waits whatever the policy: nothing overlaps yet, and what is merely late must
// not be dropped. So the oldest goes first, and no older run ever replaces a
// newer one.
func (in *AdmitInput) overlap() Admission {
	live, ahead := in.Running > 0, in.Ahead > 0
	switch {
	case in.Overlap == OverlapAllow, !live && !ahead:
		return Admission{AdmitStart, ReasonNone}
	case in.Overlap == OverlapQueueAll && in.Ahead >= MaxQueued:
		return Admission{AdmitSkip, ReasonQueueLimit}
	case !live:
		return Admission{AdmitWait, ReasonNone}
	}
	switch in.Overlap {
	case OverlapQueueAll:
		return Admission{AdmitWait, ReasonNone}
	case OverlapQueue:
		if ahead {
			return Admission{AdmitSkip, ReasonQueueLimit}
		}
		return Admission{AdmitWait, ReasonNone}
	case OverlapReplace:
		if ahead {
			return Admission{AdmitWait, ReasonNone}
		}
		return Admission{AdmitReplace, ReasonReplaced}
	default: // OverlapSkip
		return Admission{AdmitSkip, ReasonOverlap}
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
