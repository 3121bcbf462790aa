package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// describe describes an entry of the ledger.
func (x *explainer) describe(e job.Entry) (Code, string) {
	origin := map[job.Origin]string{
		job.FromTrigger: " It was triggered by hand.", job.FromBackfill: " It was backfilled.",
		job.FromMissed: " It was missed at its time and caught up.", job.FromRedrive: " It was retried by hand.",
	}[e.Origin]
	switch e.Status {
	case job.StatusSucceeded:
		return Succeeded, x.sprintf("It ran and succeeded: attempt %d%s started %s and took %s, until %s.", e.Attempt,
			on(e), lateness(e), took(e), e.EndedAt) + origin + x.earlierAttempts(e)
	case job.StatusFailed:
		return Failed, x.sprintf("It failed at %s with attempt %d%s: %s.", e.EndedAt, e.Attempt, on(e),
			x.failure(e)) + lastMessage(e) + x.earlierAttempts(e) + origin + deadLetterText(e)
	case job.StatusCancelled:
		return Cancelled, x.sprintf("It was cancelled at %s%s.", e.EndedAt, x.cancelled(e)) + origin
	case job.StatusSkipped:
		if !e.DueTo.IsZero() {
			return Skipped, x.skipped(e.Reason) + x.inRange(e.Count, e.DueAt, e.DueTo)
		}
		return Skipped, x.skipped(e.Reason)
	case job.StatusRunning:
		return Running, x.sprintf("It is running: attempt %d%s, for %s now, since %s.", e.Attempt, on(e),
			max(x.Now.Sub(e.BeganAt()), 0), e.BeganAt()) + progress(e) + origin + x.earlierAttempts(e)
	case job.StatusAccepted:
		return Accepted, x.sprintf("Its target has accepted it, with attempt %d, and must report by %s.", e.Attempt,
			e.ExpiresAt) + origin
	default:
		code, text := x.describePending(e)
		return code, text + origin
	}
}

// describePending describes a run that has not started.
func (x *explainer) describePending(e job.Entry) (Code, string) {
	switch {
	case !x.QueuePaused.IsZero():
		text := x.sprintf("It is not due yet: it is planned for %s. It cannot start then", e.RunAt)
		if e.Status == job.StatusDue {
			text = x.sprintf("It has been due since %s but cannot start", e.RunAt)
		}
		return QueuePaused, text + x.sprintf(": its queue %s has been paused since %s%s%s.", e.Queue, x.QueuePaused,
			by(x.QueueBy), because(x.QueueNote))
	case e.Message != "":
		return Deferred, x.sprintf("It was deferred: %s. It may start from %s on. This does not count as an attempt.", e.Message,
			e.RunAt)
	case x.held(e):
		return Due, "It is held: the database was restored to an earlier time, and it may have been delivered in the " +
			"forgotten time. It does not start until an operator accepts the restore."
	case e.Status == job.StatusRetrying:
		return Retrying, x.retrying(e)
	case e.Status == job.StatusPending:
		return Planned, x.sprintf("It is not due yet: it is planned and starts in %s, at %s.", e.RunAt.Sub(x.Now),
			e.RunAt)
	case x.Others > 0 && x.Definition.Overlap != job.OverlapAllow:
		return Behind, x.sprintf("It has been due since %s and waits for another run of the job to end%s.", e.RunAt,
			x.overlap(e))
	case x.Ahead > 0 && x.Definition.Overlap != job.OverlapAllow:
		return Behind, x.sprintf(
			"It has been due since %s and waits for older runs of the job, which are due too: %d%s.", e.RunAt, x.Ahead,
			x.overlap(e),
		)
	case x.Definition.Concurrency.Key != "" && x.KeyRunning >= int(x.Definition.Concurrency.Max):
		c := x.Definition.Concurrency
		return KeyFull, x.sprintf("It has been due since %s and waits for concurrency key %s: %d of %d running.", e.RunAt,
			problem.Quote(c.Key), x.KeyRunning, c.Max)
	case x.Queue.Limits.MaxRunning > 0 && x.Queue.Running >= int64(x.Queue.Limits.MaxRunning):
		return QueueFull, x.sprintf(
			"It has been due since %s and waits for a permit of queue %s: %d of %d running, %d waiting.", e.RunAt, e.Queue,
			x.Queue.Running, x.Queue.Limits.MaxRunning, x.Queue.Waiting,
		)
	case x.QuotaUsed, x.RunQuota > 0 && x.Queue.Waiting > 0 && x.Queue.Limits.Rate.Count == 0:
		return RunQuota, x.sprintf(
			"It has been due since %s and waits for the quota of its namespace, which starts %d runs per minute.", e.RunAt,
			x.RunQuota,
		)
	case x.Queue.Limits.Rate.Count > 0 && x.Queue.Waiting > 0:
		return QueueRate, x.sprintf("It has been due since %s and waits for its turn in queue %s, which starts %s; %d wait.",
			e.RunAt, e.Queue, x.Queue.Limits.Rate, x.Queue.Waiting)
	case e.Handler != "" && !x.Workers:
		return Due, x.sprintf("It has been due since %s, but no worker asks for runs of queue %s.", e.RunAt, e.Queue)
	case e.Handler != "":
		return Due, x.sprintf(
			"It has been due since %s and waits for a worker: one of queue %s that knows the handler %s and has a free slot.",
			e.RunAt, e.Queue, e.Handler,
		)
	case !x.Owned:
		return Due, x.sprintf("It has been due since %s, but no live node owns the job's partition. It starts when one does.",
			e.RunAt)
	default:
		return Due, x.sprintf("It has been due since %s and waits for a free slot on its node, or for its namespace's share of them.",
			e.RunAt)
	}
}

// overlap names the policy because of which a run waits. A run that a user requested waits with any policy.
func (x *explainer) overlap(e job.Entry) string {
	if e.Origin != job.FromSchedule {
		return ""
	}
	return fmt.Sprintf(" (overlap: %s)", x.Definition.Overlap)
}

// progress is the progress that a worker reported.
func progress(e job.Entry) (text string) {
	if e.Percent != nil {
		text = fmt.Sprintf(" Its worker says: %d %% done.", *e.Percent)
	}
	if e.Progress != "" {
		text += fmt.Sprintf(" Its progress: %s.", strings.TrimSuffix(e.Progress, "."))
	}
	return text
}

// retrying describes a run whose next attempt will start.
func (x *explainer) retrying(e job.Entry) string {
	text := fmt.Sprintf("Attempt %d failed.", e.Attempt)
	if earlier := strings.TrimSpace(x.earlierAttempts(e)); earlier != "" {
		text = earlier
	}
	return text + x.sprintf(" The next one starts in %s, at %s.", e.RunAt.Sub(x.Now), e.RunAt)
}

var failures = map[job.Reason]string{
	job.ReasonAttempts: "no attempts were left (retry.max_attempts)",
	job.ReasonLost:     "its attempts were lost repeatedly: nodes died, or outcomes were not reported in time",
	job.ReasonUnknownOutcome: "it is not known whether it happened, and delivery is at_most_once, " +
		"so it was not retried",
	job.ReasonGone: "the target responded that it no longer exists, and the job was paused",
}

// failure says why a run failed. It blames the target only if the target responded with a rejection.
func (x *explainer) failure(e job.Entry) string {
	switch {
	case e.Reason != job.ReasonRejected:
		return failures[e.Reason]
	case e.Worker:
		return "its worker reported a permanent failure, so it was not retried"
	case e.Code > 0 && x.Definition.Target.Kind != "command":
		return "the target rejected it permanently, so it was not retried"
	default:
		return "another attempt would fail too, so it was not retried"
	}
}

var cancellations = map[job.Reason]string{
	job.ReasonCancelled: "a user requested it",
	job.ReasonReplaced:  "a newer run replaced it (overlap: replace)",
	job.ReasonDeleted:   "the job was deleted",
}

// cancelled says who or what cancelled a run.
func (x *explainer) cancelled(e job.Entry) string {
	if x.CancelledBy != "" {
		return by(x.CancelledBy)
	}
	return ": " + cancellations[e.Reason]
}

// skipped says why an occurrence did not run.
func (x *explainer) skipped(why job.Reason) string {
	m, p := x.Definition.Missed, x.Definition.Policy
	down := "It did not run: no node served the job's partition when it was due, and "
	if x.skipFor != "" {
		down = "It did not run: nodes could not plan its schedule when it was due (" + x.skipFor + "), and "
	}
	switch why {
	case job.ReasonMissed:
		if m.Policy == job.MissedOnce {
			return down + "of the missed ones only the newest runs (missed.policy: once)."
		}
		return down + fmt.Sprintf("missed ones are not caught up (missed.policy: %s).", m.Policy)
	case job.ReasonMissedWindow:
		return down + fmt.Sprintf("it was older than missed.catch_up_window, %s.", m.CatchUpWindow)
	case job.ReasonMissedMax:
		return down + fmt.Sprintf("more were missed than missed.max, %d; the newest of them ran.", m.Max)
	case job.ReasonPaused:
		if policy := cmp.Or(m.Paused, job.MissedSkip); policy != job.MissedSkip {
			return fmt.Sprintf("It did not run: the job was paused, and when it was resumed "+
				"it was not among those that were caught up (missed.paused: %s).", policy)
		}
		return "It did not run: the job was paused, and occurrences of a pause are skipped (missed.paused: skip)."
	case job.ReasonOverlap:
		return "It did not run: another run of the job was still live when it was due (overlap: skip)."
	case job.ReasonOverlapLimit:
		if p.Overlap == job.OverlapQueue {
			return "It did not run: another run of the job was live when it was due, " +
				"and another one was already waiting (overlap: queue)."
		}
		return fmt.Sprintf("It did not run: %d runs of the job were already waiting (overlap: %s).", job.MaxQueued,
			p.Overlap)
	case job.ReasonExpired:
		return fmt.Sprintf("It did not run: it could not start within the job's deadline, %s after it was due.",
			p.Deadline)
	case job.ReasonReplaced:
		return "It did not run: a newer run replaced it (overlap: replace)."
	case job.ReasonGap:
		return x.doesNotRun("the clock is put forward past it that day, and dst.gap is skip")
	case job.ReasonCalendar:
		return x.doesNotRun("a calendar of the job excludes this time")
	case job.ReasonRestored:
		return "It did not run: the database was restored to an earlier time, and whether this occurrence was delivered " +
			"in the forgotten time is unknown."
	case job.ReasonDeleted:
		return "It did not run: the job was deleted before it could start."
	default:
		return fmt.Sprintf("It did not run: %s.", why)
	}
}

func (x *explainer) paused(future bool) string {
	text := x.sprintf("the job has been paused since %s", x.Job.PausedAt)
	if !x.Job.PausedUntil.IsZero() {
		text += x.sprintf(" until %s", x.Job.PausedUntil)
	}
	text += by(x.Job.PausedBy) + because(x.Job.Note) + "."
	if future {
		return "It will not run: " + text
	}
	return "It did not run: " + text
}

// doesNotRun describes an occurrence that a rule excludes, in the past or in the future.
func (x *explainer) doesNotRun(why string) string {
	if x.At.After(x.Now) {
		return "It will not run: " + why + "."
	}
	return "It did not run: " + why + "."
}

// shifted says that a change of the clock moved an occurrence.
func (x *explainer) shifted(at time.Time) string {
	if x.schedule == nil {
		return ""
	}
	o, ok := occurrenceAt(x.schedule, at)
	if !ok || o.Mark != schedule.MarkShifted {
		return ""
	}
	return fmt.Sprintf(" Its time, %s, does not exist that day, as the clock is put forward: "+
		"it is due when the gap ends (dst.gap: shift).", strings.Replace(o.Nominal, "T", " ", 1))
}

// deletedSince says that the job of an entry was deleted.
func (x *explainer) deletedSince() string {
	if x.Job != nil || x.DeletedAt.IsZero() {
		return ""
	}
	return x.sprintf(" The job was deleted at %s%s.", x.DeletedAt, by(x.DeletedBy))
}

// found says what the audit found wrong with an occurrence that has an entry.
func (x *explainer) found() string {
	switch x.Found {
	case auditor.Phantom:
		return x.sprintf(" The audit found at %s that no schedule of the job demands this run.", x.FoundAt)
	case auditor.Early:
		return x.sprintf(" The audit found at %s that it ran before it was due.", x.FoundAt)
	case auditor.Duplicate:
		return x.sprintf(" The audit found at %s that the ledger has it more than once.", x.FoundAt)
	case auditor.Missing:
		return x.sprintf(" The audit found at %s that the ledger had no entry for it.", x.FoundAt)
	default:
		return ""
	}
}

// whatMissedPolicyDoes says what the missed policy does with an occurrence that no node has planned.
func (x *explainer) whatMissedPolicyDoes() string {
	if x.Now.Sub(x.At) < job.MissedGrace {
		return "it runs, late"
	}
	switch x.Definition.Missed.Policy {
	case job.MissedSkip:
		return "it is skipped (missed.policy: skip)"
	case job.MissedAll:
		return "it is caught up (missed.policy: all)"
	default:
		return "the newest of those that were missed is caught up (missed.policy: once)"
	}
}

// inRange says that an occurrence is one of a range.
func (x *explainer) inRange(count int64, from, to time.Time) string {
	switch {
	case count == 1:
		return ""
	case count > 1:
		return x.sprintf(" It is one of %d, due from %s to %s.", count, from, to)
	default:
		return x.sprintf(" It is one of those due from %s to %s.", from, to)
	}
}

// earlierAttempts describes the attempt before the last.
func (x *explainer) earlierAttempts(e job.Entry) string {
	n := len(e.Attempts)
	if n == 0 {
		return ""
	}
	last := e.Attempts[n-1]
	if e.Status == job.StatusFailed && last.Message == e.Message && last.Number != e.Attempt {
		return fmt.Sprintf(" Attempt %d said the same.", last.Number)
	}
	word := map[job.OutcomeKind]string{job.Lost: "was lost"}[last.Outcome]
	if word == "" {
		word = "failed"
	}
	text := fmt.Sprintf(" Attempt %d %s", last.Number, word)
	if last.Message != "" {
		text += ": " + strings.TrimSuffix(last.Message, ".")
	}
	return text + "."
}

func deadLetterText(e job.Entry) string {
	if e.DeadLetter {
		return " It is a dead letter."
	}
	return " Its dead letter has been redriven or discarded."
}

func lastMessage(e job.Entry) string {
	if e.Message == "" {
		return ""
	}
	return " The last attempt said: " + strings.TrimSuffix(e.Message, ".") + "."
}

func on(e job.Entry) string {
	if e.Node == "" {
		return ""
	}
	if e.Worker {
		return " by worker " + e.Node
	}
	return " on " + e.Node
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

func because(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}

// took is how long the last attempt took.
func took(e job.Entry) string {
	if e.StartedAt.IsZero() {
		return "no time"
	}
	return max(e.EndedAt.Sub(e.BeganAt()), 0).Round(time.Millisecond).String()
}

// lateness is how late a run started.
func lateness(e job.Entry) string {
	late := e.BeganAt().Sub(e.RunAt)
	if e.Origin == job.FromMissed {
		late = e.BeganAt().Sub(e.DueAt)
	}
	switch {
	case late < time.Second:
		return "on time"
	case late < time.Minute:
		return late.Round(100*time.Millisecond).String() + " late"
	default:
		return span(late) + " late"
	}
}

// sprintf writes times in the job's zone and in UTC, and durations short.
func (x *explainer) sprintf(format string, args ...any) string {
	for i, a := range args {
		switch v := a.(type) {
		case time.Time:
			args[i] = x.when(v)
		case time.Duration:
			args[i] = span(v)
		}
	}
	return fmt.Sprintf(format, args...)
}

// span is a duration for people: long ones have no seconds.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return job.Duration(d.Round(time.Minute)).String()
	default:
		return job.Duration(d.Round(time.Second)).String()
	}
}

func (x *explainer) when(at time.Time) string {
	const form = "2006-01-02 15:04:05 MST"
	if x.zone == time.UTC {
		return at.UTC().Format(form)
	}
	local, utc := at.In(x.zone), at.UTC()
	short := "15:04:05"
	if local.Format(time.DateOnly) != utc.Format(time.DateOnly) {
		short = time.DateTime
	}
	return local.Format(form) + " (" + utc.Format(short) + " UTC)"
}
