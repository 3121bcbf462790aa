package why

import (
	"cmp"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// askOperator is for users of a namespace: belfry audit ledger needs the URL of the database.
const askOperator = "Ask the operator to run belfry audit ledger for this time."

// nextStep says what happens next, or what the user can do, and suggests the commands for it. Empty means nothing.
func (x *explainer) nextStep(story Story) string {
	x.suggestReading(story)
	if x.expired(story.Entry) {
		return fmt.Sprintf("It will be skipped as expired instead of starting, because its deadline, %s after it was due, "+
			"has passed. To run it after all, retry the run then.", x.Definition.Deadline)
	}
	switch story.Code {
	case Failed:
		return x.afterFailure(story.Entry)
	case Cancelled:
		return "It does not run again by itself. " + x.again(story)
	case Skipped:
		return x.afterSkip(story)
	case Running:
		return fmt.Sprintf("The attempt ends after %s at the latest (timeout).", x.Definition.Timeout)
	case Accepted:
		return "Without a report by then the attempt counts as lost, and the run is retried; " +
			"with delivery at_most_once the run fails."
	case Retrying:
		return x.sprintf("It is retried automatically, up to %d attempts in all; then it is a dead letter.",
			x.Definition.Retry.MaxAttempts)
	case Planned, NotDue:
		return "No action needed."
	case Due:
		return x.whenDue(story.Entry)
	case QueuePaused:
		x.suggest("queue", "resume", story.Entry.Queue)
		return "Resume the queue: its due runs then start, by priority."
	case Behind:
		if x.Others == 0 {
			x.suggest("job", "runs", x.name(), "--state", "due")
			return "It starts when the older ones have ended. To see why they wait, run belfry why with the id of the oldest."
		}
		x.suggest("job", "runs", x.name(), "--state", "running,accepted")
		return "It starts when the other run ends. If that one hangs, cancel it, or give the job a shorter timeout."
	case Paused:
		return x.afterPause(story)
	case BeforeStart, AfterEnd:
		return x.outside(story.Code)
	case Unplanned:
		if x.Problem != "" {
			return "Fix the problem. A node retries it automatically."
		}
		if !x.Owned {
			return "Start a node, or find out why none is alive."
		}
		return "A node handles it within seconds. " +
			"If this lasts, look for failures of plan in the log of the node."
	case Unknown:
		if x.schedule == nil {
			return ""
		}
		return "Keep the logs and the WAL of that time, and report it with the job's id and this time. " +
			x.again(story) + askOperator
	case Archived:
		return x.readArchive()
	case Deleted:
		x.suggest("job", "versions", x.name())
		return "To run it, create the job again. Its versions are kept."
	default:
		return ""
	}
}

func (x *explainer) suggest(command ...string) { x.commands = append(x.commands, command) }

// suggestReading suggests commands that show more.
func (x *explainer) suggestReading(story Story) {
	switch story.Code {
	case Failed, Running, Accepted, Retrying, Succeeded:
		x.suggest("run", "get", job.FormatRunID(story.Entry.Key))
	case None:
		for _, at := range story.Nearest {
			x.suggest("why", x.name(), at.UTC().Format(time.RFC3339Nano))
		}
	case BeforeStart, AfterEnd:
		if x.Job != nil {
			x.suggest("job", "get", x.name())
		}
	}
}

// name is how commands name the job: a deleted one has only its id.
func (x *explainer) name() string {
	if x.Job == nil {
		return job.FormatJobID(x.ID)
	}
	return x.Job.Name
}

// again says how to run an occurrence after all, and suggests the command. Empty means that it cannot run: the job is
// deleted, or it is yet to come. Any run can be retried. An occurrence without a run of its own can be backfilled, if
// the schedule of today still has it and does not leave it out.
func (x *explainer) again(story Story) string {
	e, at := story.Entry, story.At.UTC()
	switch {
	case x.Job == nil:
		return ""
	case e != nil && e.DueTo.IsZero():
		x.suggest("run", "retry", job.FormatRunID(e.Key))
		return "To run it after all, retry the run. "
	case at.After(x.Now):
		return ""
	}
	if s, err := schedule.New(x.Job.Schedule, x.ID.String()); err == nil {
		if o, ok := s.At(at); ok && o.Skip == "" {
			x.suggest("job", "backfill", x.name(), "--from", at.Format(time.RFC3339Nano),
				"--to", at.Add(time.Microsecond).Format(time.RFC3339Nano))
			return "To run it after all, backfill it. "
		}
	}
	x.suggest("job", "trigger", x.name())
	return "To run it after all, trigger the job. "
}

// outside says what to do about a time before the start or after the end of the job.
func (x *explainer) outside(code Code) string {
	switch {
	case x.Job == nil:
		return ""
	case code == BeforeStart:
		return "To run it earlier, change start_at."
	default:
		return "To let the job continue, change end_at."
	}
}

// whenDue says what a due run that nothing else holds up needs.
func (x *explainer) whenDue(e *job.Entry) string {
	switch {
	case x.held(*e):
		return "Ask an operator to run: belfry restore status"
	case !x.Owned:
		return "Start a node, or find out why none is alive. The run is not lost: it starts late."
	case e.Handler != "":
		return x.awaitWorker(e)
	default:
		return "It starts by itself as soon as a slot is free. If this lasts: give the nodes more slots, add nodes, " +
			"or raise the job's priority."
	}
}

// held reports whether a restore of the database keeps a run from starting.
func (x *explainer) held(e job.Entry) bool {
	pending := e.Status == job.StatusDue || e.Status == job.StatusPending || e.Status == job.StatusRetrying
	return pending && e.DueAt.Before(x.HeldUntil)
}

// readArchive says how to read the runs that ended on the day of the occurrence or the next one: a run may end later than
// the day on which it is due.
func (x *explainer) readArchive() string {
	day := x.At.UTC()
	return fmt.Sprintf("The operator can read it: belfry archive runs --job %s --from %s --to %s",
		job.FormatJobID(x.ID), day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly))
}

// expired reports whether the deadline of a due run has passed, so that it will not start. One that was only deferred has
// no attempts that are recorded.
func (x *explainer) expired(e *job.Entry) bool {
	return e != nil && e.Status == job.StatusDue && x.Definition.Deadline > 0 &&
		(e.Attempt == 0 || e.Message != "" && len(e.Attempts) == 0) &&
		e.Origin.HasDeadline() && x.Now.Sub(e.DueAt) > time.Duration(x.Definition.Deadline)
}

// awaitWorker says what a due run for workers needs.
func (x *explainer) awaitWorker(e *job.Entry) string {
	if !x.Workers {
		return fmt.Sprintf("Start a worker for queue %s with the handler %s. The run is not lost: it starts late.",
			e.Queue, e.Handler)
	}
	return fmt.Sprintf("It starts as soon as such a worker asks for it. If this lasts: check that a worker of the queue "+
		"has the handler %s, and start more workers.", e.Handler)
}

func (x *explainer) afterFailure(e *job.Entry) string {
	if !e.DeadLetter {
		return ""
	}
	discard := []string{"dlq", "discard", job.FormatRunID(e.Key)}
	if x.Job == nil {
		x.suggest(discard...)
		return "Its job is deleted, so it cannot run again: discard the dead letter."
	}
	x.suggest("dlq", "redrive", job.FormatRunID(e.Key))
	x.suggest(discard...)
	switch {
	case e.Reason == job.ReasonGone && x.Job.State == job.Paused:
		x.suggest("job", "resume", x.name())
		return "Fix the target or the job, redrive the dead letter, and resume the job: it is paused."
	case e.Reason == job.ReasonUnknownOutcome:
		return "Check at the target whether it happened. If not, redrive the dead letter. If it did, discard it."
	default:
		return "It does not run again by itself. Fix the cause and redrive the dead letter, or discard it."
	}
}

// afterSkip says how to avoid the skip the next time, and how to run a past occurrence.
func (x *explainer) afterSkip(story Story) string {
	if x.Job == nil {
		return ""
	}
	again := x.again(story)
	switch story.Reason {
	case job.ReasonMissed:
		if x.Definition.Missed.Policy == job.MissedOnce {
			return again + "If each is needed after an outage, set missed.policy to all."
		}
		return again + "To catch up missed ones after an outage, set missed.policy to once or all."
	case job.ReasonMissedWindow:
		return again + "To catch up older ones after an outage, raise missed.catch_up_window."
	case job.ReasonMissedMax:
		return again + "To catch up more of them after an outage, raise missed.max."
	case job.ReasonPaused:
		return again + "With missed.paused once or all, a resume catches up."
	case job.ReasonOverlap:
		return again +
			"If each is needed, set overlap to queue or allow, or make the runs shorter than the time between them."
	case job.ReasonOverlapLimit:
		return again + "The runs take longer than the time between them: make them shorter, or schedule them less often."
	case job.ReasonExpired:
		return again + "If late is better than never, raise deadline or set it to 0."
	case job.ReasonReplaced:
		return again + "If each is needed, set overlap to queue or allow."
	case job.ReasonGap:
		return again + "With dst.gap shift it runs when the gap ends."
	case job.ReasonRestored:
		return "Check at the target whether it happened. If not: until the restore is accepted, an operator can run it with " +
			"belfry restore accept. " + again
	case job.ReasonCalendar:
		return again + "To run it at such a time, change the calendars of the schedule."
	default:
		return again
	}
}

func (x *explainer) afterPause(story Story) string {
	x.suggest("job", "resume", x.name())
	if story.At.After(x.Now) {
		return "To run it, resume the job before that time."
	}
	resume := "Resume the job"
	if !x.Job.PausedUntil.IsZero() {
		resume = x.sprintf("Belfry resumes the job at %s, unless you do so before", x.Job.PausedUntil)
	}
	return fmt.Sprintf("%s: %s.", resume, map[job.MissedPolicy]string{
		job.MissedSkip: "the occurrences of the pause are then skipped (missed.paused: skip)",
		job.MissedOnce: "the newest occurrence of the pause then runs (missed.paused: once)",
		job.MissedAll:  "the occurrences of the pause then run (missed.paused: all)",
	}[cmp.Or(x.Definition.Missed.Paused, job.MissedSkip)])
}
