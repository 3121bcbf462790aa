package job

import "time"

// AdmitRule says what a claim must check before it starts a run of a job. The numbers are stored in job.admit and
// run.admit.
type AdmitRule int16

// The rules. If a run does not meet its rule, start.Decide decides about it.
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

// Expires is when the deadline of a run passes that has not started; zero: never.
func (p Policy) Expires(o Origin, dueAt time.Time) (at time.Time) {
	if p.Deadline > 0 && o.HasDeadline() {
		at = dueAt.Add(time.Duration(p.Deadline))
	}
	return at
}

// HasDeadline exempts backfills and redrives: a user asked for them long after the due time.
func (o Origin) HasDeadline() bool { return o != FromBackfill && o != FromRedrive }
