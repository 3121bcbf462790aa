package job

import (
	"fmt"
	"strings"
	"time"
)

// told puts an entry of the ledger into words.
func (t *teller) told(e Entry) (WhyCode, string) {
	made := map[Origin]string{
		FromTrigger: " It was triggered by hand.", FromBackfill: " It was backfilled.",
		FromMissed: " It was missed at its time and caught up.", FromRedrive: " It was redriven.",
	}[e.Origin]
	switch e.Status {
	case StatusSucceeded:
		return WhySucceeded, t.sprintf("It ran and succeeded: due %s, started %s, ended %s, attempt %d%s.", e.DueAt, lateness(e), e.EndedAt, e.Attempt, on(e)) + made + t.tries(e)
	case StatusFailed:
		return WhyFailed, t.sprintf("It failed at %s: %s.", e.EndedAt, failures[e.Reason]) + said(e) + made + t.tries(e) + buried(e)
	case StatusCancelled:
		return WhyCancelled, t.sprintf("It was cancelled at %s: %s.", e.EndedAt, cancellations[e.Reason]) + made
	case StatusSkipped:
		if !e.DueTo.IsZero() {
			return WhySkipped, t.skipped(e.Reason) + t.among(e.Count, e.DueAt, e.DueTo)
		}
		return WhySkipped, t.skipped(e.Reason)
	case StatusRunning:
		return WhyRunning, t.sprintf("It is running: attempt %d, since %s%s.", e.Attempt, e.StartedAt, on(e)) + made + t.tries(e)
	case StatusWaiting:
		return WhyWaiting, t.sprintf("Its target has accepted it and is to report by %s.", e.ExpiresAt) + made
	default:
		code, text := t.toCome(e)
		return code, text + made
	}
}

// toCome puts a run that has not started into words.
func (t *teller) toCome(e Entry) (WhyCode, string) {
	switch {
	case !t.QueuePaused.IsZero():
		return WhyQueuePaused, t.sprintf("It is planned for %s, but its queue %s is paused since %s%s; it waits until the queue is resumed.", e.RunAt, e.Queue, t.QueuePaused, because(t.QueueNote))
	case e.Message != "":
		return WhyHeld, t.sprintf("It was not tried: %s. It may be tried from %s on; this costs it no attempt.", e.Message, e.RunAt)
	case e.Attempt > 0 && e.Status == StatusPending:
		return WhyRetrying, t.sprintf("Attempt %d failed; the next one is due at %s.", e.Attempt, e.RunAt) + t.tries(e)
	case e.Status == StatusPending:
		return WhyPlanned, t.sprintf("It is not due yet: it is planned and starts at %s, in %s.", e.RunAt, e.RunAt.Sub(t.Now))
	case t.Others > 0:
		return WhyBehind, t.sprintf("It is due since %s and waits for another run of the job to end (overlap: %s).", e.RunAt, t.Definition.Overlap)
	case !t.Owned:
		return WhyDue, t.sprintf("It is due since %s, but no live node owns the job's partition; it starts when one does.", e.RunAt)
	default:
		return WhyDue, t.sprintf("It is due since %s and waits for a free slot on its node.", e.RunAt)
	}
}

var failures = map[Reason]string{
	ReasonAttempts:       "no attempts were left",
	ReasonRejected:       "the target said no, for good, so it was not tried again",
	ReasonLost:           "its attempts were lost again and again: nodes died, or outcomes were not reported in time",
	ReasonUnknownOutcome: "nobody knows whether it happened, and delivery is at_most_once, so it was not tried again",
	ReasonGone:           "the target said that it is gone for ever, and the job was paused",
}

var cancellations = map[Reason]string{
	ReasonCancelled: "somebody asked for it",
	ReasonReplaced:  "a newer run took its place (overlap: replace)",
	ReasonDeleted:   "the job was deleted",
}

// skipped tells why an occurrence did not run.
func (t *teller) skipped(why Reason) string {
	m, p := t.Definition.Missed, t.Definition.Policy
	const down = "It did not run: no node was there to plan it in time, and "
	switch why {
	case ReasonMissed:
		if m.Policy == MissedOnce {
			return down + "of the missed ones only the newest runs (missed.policy: once)."
		}
		return down + fmt.Sprintf("missed ones are not caught up (missed.policy: %s).", m.Policy)
	case ReasonMissedWindow:
		return down + fmt.Sprintf("it was older than missed.catch_up_window, %s.", m.CatchUpWindow)
	case ReasonMissedMax:
		return down + fmt.Sprintf("more were missed than missed.max, %d; the newest of them ran.", m.Max)
	case ReasonPaused:
		return fmt.Sprintf("It did not run: the job was paused, and what a pause keeps back is handled by missed.paused: %s.", orElse(m.Paused, MissedSkip))
	case ReasonOverlap:
		return "It did not run: another run of the job was still live when it was due (overlap: skip)."
	case ReasonQueueLimit:
		return fmt.Sprintf("It did not run: too many runs of the job were waiting already (overlap: %s).", p.Overlap)
	case ReasonExpired:
		return fmt.Sprintf("It did not run: it could not start within the job's deadline, %s after it was due.", p.Deadline)
	case ReasonReplaced:
		return "It did not run: a newer run took its place (overlap: replace)."
	case ReasonGap:
		return "It did not run: the clock was put forward past it that day, and dst.gap is skip."
	case ReasonCalendar:
		return "It did not run: a calendar of the job excludes this time."
	case ReasonDeleted:
		return "It did not run: the job was deleted before it could start."
	default:
		return fmt.Sprintf("It did not run: %s.", why)
	}
}

func (t *teller) paused(future bool) string {
	text := t.sprintf("The job is paused since %s%s%s. ", t.PausedAt, by(t.PausedBy), because(t.Job.Note))
	policy := orElse(t.Job.Missed.Paused, MissedSkip)
	if future {
		return text + "It runs if the job is resumed before it is due."
	}
	return text + fmt.Sprintf("When it is resumed, missed.paused: %s decides what becomes of it.", policy)
}

// among says that an occurrence is one of a range.
func (t *teller) among(count int64, from, to time.Time) string {
	switch {
	case count == 1:
		return ""
	case count > 1:
		return t.sprintf(" It is one of %d, due from %s to %s.", count, from, to)
	default:
		return t.sprintf(" It is one of those due from %s to %s.", from, to)
	}
}

// tries tells of the attempts before the last.
func (t *teller) tries(e Entry) string {
	n := len(e.Attempts)
	if n == 0 {
		return ""
	}
	last := e.Attempts[n-1]
	word := map[OutcomeKind]string{Lost: "was lost"}[last.Outcome]
	if word == "" {
		word = "failed"
	}
	text := fmt.Sprintf(" Attempt %d %s", last.Number, word)
	if last.Message != "" {
		text += ": " + strings.TrimSuffix(last.Message, ".")
	}
	return text + "."
}

func buried(e Entry) string {
	if e.DeadLetter {
		return " It is a dead letter: redrive it or discard it."
	}
	return " Its dead letter was redriven or discarded."
}

func said(e Entry) string {
	if e.Message == "" {
		return ""
	}
	return " The last attempt said: " + strings.TrimSuffix(e.Message, ".") + "."
}

func on(e Entry) string {
	if e.Node == "" {
		return ""
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

// lateness is how late a run started.
func lateness(e Entry) string {
	late := e.StartedAt.Sub(e.RunAt)
	if late < time.Second {
		return "on time"
	}
	return late.Round(time.Millisecond).String() + " late"
}

// sprintf writes times in the job's zone and in UTC, and durations short.
func (t *teller) sprintf(format string, args ...any) string {
	for i, a := range args {
		switch v := a.(type) {
		case time.Time:
			args[i] = t.when(v)
		case time.Duration:
			args[i] = v.Round(time.Second).String()
		}
	}
	return fmt.Sprintf(format, args...)
}

func (t *teller) when(at time.Time) string {
	const form = "2006-01-02 15:04:05 MST"
	if t.zone == time.UTC {
		return at.UTC().Format(form)
	}
	return at.In(t.zone).Format(form) + " (" + at.UTC().Format("15:04:05") + " UTC)"
}
