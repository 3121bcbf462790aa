package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// told puts an entry of the ledger into words.
func (t *teller) told(e job.Entry) (Code, string) {
	made := map[job.Origin]string{
		job.FromTrigger: " It was triggered by hand.", job.FromBackfill: " It was backfilled.",
		job.FromMissed: " It was missed at its time and caught up.", job.FromRedrive: " It was redriven.",
	}[e.Origin]
	switch e.Status {
	case job.StatusSucceeded:
		return Succeeded, t.sprintf("It ran and succeeded: attempt %d%s started %s and took %s, until %s.", e.Attempt, on(e), lateness(e), took(e), e.EndedAt) + made + t.tries(e)
	case job.StatusFailed:
		return Failed, t.sprintf("It failed at %s with attempt %d%s: %s.", e.EndedAt, e.Attempt, on(e), failures[e.Reason]) + said(e) + t.tries(e) + made + buried(e)
	case job.StatusCancelled:
		return Cancelled, t.sprintf("It was cancelled at %s%s.", e.EndedAt, t.cancelled(e)) + made
	case job.StatusSkipped:
		if !e.DueTo.IsZero() {
			return Skipped, t.skipped(e.Reason) + t.among(e.Count, e.DueAt, e.DueTo)
		}
		return Skipped, t.skipped(e.Reason)
	case job.StatusRunning:
		return Running, t.sprintf("It is running: attempt %d%s, for %s now, since %s.", e.Attempt, on(e), max(t.Now.Sub(e.BeganAt()), 0), e.BeganAt()) + progress(e) + made + t.tries(e)
	case job.StatusWaiting:
		return Waiting, t.sprintf("Its target has accepted it, with attempt %d, and is to report by %s.", e.Attempt, e.ExpiresAt) + made
	default:
		code, text := t.toCome(e)
		return code, text + made
	}
}

// toCome puts a run that has not started into words.
func (t *teller) toCome(e job.Entry) (Code, string) {
	switch {
	case !t.QueuePaused.IsZero():
		text := t.sprintf("It is not due yet: it is planned for %s. But it will not start as things are", e.RunAt)
		if e.Status == job.StatusDue {
			text = t.sprintf("It is due since %s and does not start", e.RunAt)
		}
		return QueuePaused, text + t.sprintf(": its queue %s is paused since %s%s%s.", e.Queue, t.QueuePaused, by(t.QueueBy), because(t.QueueNote))
	case e.Message != "":
		return Held, t.sprintf("It was not tried: %s. It may be tried from %s on; this costs it no attempt.", e.Message, e.RunAt)
	case e.Attempt > 0 && e.Status == job.StatusPending:
		return Retrying, t.retrying(e)
	case e.Status == job.StatusPending:
		return Planned, t.sprintf("It is not due yet: it is planned and starts in %s, at %s.", e.RunAt.Sub(t.Now), e.RunAt)
	case t.Others > 0 && t.Definition.Overlap != job.OverlapAllow:
		return Behind, t.sprintf("It is due since %s and waits for another run of the job to end (overlap: %s).", e.RunAt, t.Definition.Overlap)
	case t.Definition.Concurrency.Key != "" && t.KeyRunning >= int(t.Definition.Concurrency.Max):
		c := t.Definition.Concurrency
		return KeyFull, t.sprintf("It is due since %s and waits for concurrency key %s: %d of %d running.", e.RunAt, job.Quote(c.Key), t.KeyRunning, c.Max)
	case t.Queue.Limits.MaxRunning > 0 && t.Queue.Running >= int64(t.Queue.Limits.MaxRunning):
		return QueueFull, t.sprintf("It is due since %s and waits for a place in queue %s: %d of %d running, %d waiting.", e.RunAt, e.Queue, t.Queue.Running, t.Queue.Limits.MaxRunning, t.Queue.Waiting)
	case t.Queue.Limits.Rate.Count > 0 && t.Queue.Waiting > 0:
		return QueueRate, t.sprintf("It is due since %s and waits for its turn in queue %s, which starts %s; %d wait.", e.RunAt, e.Queue, t.Queue.Limits.Rate, t.Queue.Waiting)
	case e.Handler != "":
		return Due, t.sprintf("It is due since %s and waits for a worker: one of queue %s that knows the handler %s and has room.", e.RunAt, e.Queue, e.Handler)
	case !t.Owned:
		return Due, t.sprintf("It is due since %s, but no live node owns the job's partition; it starts when one does.", e.RunAt)
	default:
		return Due, t.sprintf("It is due since %s and waits for a free slot on its node.", e.RunAt)
	}
}

// progress is how far a worker says that it has come.
func progress(e job.Entry) (text string) {
	if e.Percent != nil {
		text = fmt.Sprintf(" Its worker says: %d %% done.", *e.Percent)
	}
	if e.Progress != "" {
		text += fmt.Sprintf(" It tells of its progress: %s.", strings.TrimSuffix(e.Progress, "."))
	}
	return text
}

// retrying tells of a run whose next attempt is to come.
func (t *teller) retrying(e job.Entry) string {
	text := fmt.Sprintf("Attempt %d failed.", e.Attempt)
	if tries := strings.TrimSpace(t.tries(e)); tries != "" {
		text = tries
	}
	return text + t.sprintf(" The next one starts in %s, at %s.", e.RunAt.Sub(t.Now), e.RunAt)
}

var failures = map[job.Reason]string{
	job.ReasonAttempts:       "no attempts were left (retry.max_attempts)",
	job.ReasonRejected:       "the target said no, for good, so it was not tried again",
	job.ReasonLost:           "its attempts were lost again and again: nodes died, or outcomes were not reported in time",
	job.ReasonUnknownOutcome: "nobody knows whether it happened, and delivery is at_most_once, so it was not tried again",
	job.ReasonGone:           "the target said that it is gone for ever, and the job was paused",
}

var cancellations = map[job.Reason]string{
	job.ReasonCancelled: "somebody asked for that",
	job.ReasonReplaced:  "a newer run took its place (overlap: replace)",
	job.ReasonDeleted:   "the job was deleted",
}

// cancelled tells who or what cancelled a run.
func (t *teller) cancelled(e job.Entry) string {
	if t.CancelledBy != "" {
		return by(t.CancelledBy)
	}
	return ": " + cancellations[e.Reason]
}

// skipped tells why an occurrence did not run.
func (t *teller) skipped(why job.Reason) string {
	m, p := t.Definition.Missed, t.Definition.Policy
	const down = "It did not run: no node was there to plan it in time, and "
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
			return fmt.Sprintf("It did not run: the job was paused, and when it was resumed it was not among those that were caught up (missed.paused: %s).", policy)
		}
		return "It did not run: the job was paused, and what a pause keeps back is skipped (missed.paused: skip)."
	case job.ReasonOverlap:
		return "It did not run: another run of the job was still live when it was due (overlap: skip)."
	case job.ReasonQueueLimit:
		if p.Overlap == job.OverlapQueue {
			return "It did not run: another run of the job was live when it was due, and one was waiting for that already (overlap: queue)."
		}
		return fmt.Sprintf("It did not run: %d runs of the job were waiting already (overlap: %s).", job.MaxQueued, p.Overlap)
	case job.ReasonExpired:
		return fmt.Sprintf("It did not run: it could not start within the job's deadline, %s after it was due.", p.Deadline)
	case job.ReasonReplaced:
		return "It did not run: a newer run took its place (overlap: replace)."
	case job.ReasonGap:
		return t.didNot("the clock is put forward past it that day, and dst.gap is skip")
	case job.ReasonCalendar:
		return t.didNot("a calendar of the job excludes this time")
	case job.ReasonDeleted:
		return "It did not run: the job was deleted before it could start."
	default:
		return fmt.Sprintf("It did not run: %s.", why)
	}
}

func (t *teller) paused(future bool) string {
	text := t.sprintf("the job is paused since %s%s%s.", t.PausedAt, by(t.PausedBy), because(t.Job.Note))
	if future {
		return "It will not run as things are: " + text
	}
	return "It did not run: " + text
}

// didNot tells of an occurrence that a rule takes away, in the past or in the future.
func (t *teller) didNot(why string) string {
	if t.At.After(t.Now) {
		return "It will not run: " + why + "."
	}
	return "It did not run: " + why + "."
}

// shifted tells that a change of the clock moved an occurrence.
func (t *teller) shifted(at time.Time) string {
	if t.schedule == nil {
		return ""
	}
	o, ok := occurrenceAt(t.schedule, at)
	if !ok || o.Mark != schedule.MarkShifted {
		return ""
	}
	return fmt.Sprintf(" Its time, %s, does not exist that day, as the clock is put forward: it is due when the gap ends (dst.gap: shift).", strings.Replace(o.Nominal, "T", " ", 1))
}

// deletedSince tells that the job of an entry is gone.
func (t *teller) deletedSince() string {
	if t.Job != nil || t.DeletedAt.IsZero() {
		return ""
	}
	return t.sprintf(" The job was deleted at %s%s.", t.DeletedAt, by(t.DeletedBy))
}

// willMiss says what the missed policy makes of an occurrence that is late.
func (t *teller) willMiss() string {
	if t.Now.Sub(t.At) < job.MissedGrace {
		return "it runs, late"
	}
	switch t.Definition.Missed.Policy {
	case job.MissedSkip:
		return "it is skipped (missed.policy: skip)"
	case job.MissedAll:
		return "it is caught up (missed.policy: all)"
	default:
		return "the newest of those that were missed is caught up (missed.policy: once)"
	}
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
func (t *teller) tries(e job.Entry) string {
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

func buried(e job.Entry) string {
	if e.DeadLetter {
		return " It is a dead letter."
	}
	return " Its dead letter was redriven or discarded since."
}

func said(e job.Entry) string {
	if e.Message == "" {
		return ""
	}
	return " The last attempt said: " + strings.TrimSuffix(e.Message, ".") + "."
}

func on(e job.Entry) string {
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

// took is how long the last attempt was under way.
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
	if late < time.Second {
		return "on time"
	}
	return late.Round(100*time.Millisecond).String() + " late"
}

// sprintf writes times in the job's zone and in UTC, and durations short.
func (t *teller) sprintf(format string, args ...any) string {
	for i, a := range args {
		switch v := a.(type) {
		case time.Time:
			args[i] = t.when(v)
		case time.Duration:
			args[i] = span(v)
		}
	}
	return fmt.Sprintf(format, args...)
}

// span is a duration as people say it: what is far needs no seconds.
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

func (t *teller) when(at time.Time) string {
	const form = "2006-01-02 15:04:05 MST"
	if t.zone == time.UTC {
		return at.UTC().Format(form)
	}
	return at.In(t.zone).Format(form) + " (" + at.UTC().Format("15:04:05") + " UTC)"
}
