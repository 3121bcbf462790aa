package finish

import (
	"cmp"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// Input is an attempt with its outcome.
type Input struct {
	Run     job.Run    // Run.Attempt is the number of this attempt
	Policy  job.Policy // with defaults
	Outcome job.Outcome
	Now     time.Time // the database instant of the transaction
}

// Decision is what an outcome means.
type Decision struct {
	Kind   Kind
	Ended  job.Ended  // of a finish
	Reason job.Reason // of a finish other than success

	// The fields of a retry.
	RunAt  time.Time // when the run may start again
	Free   bool      // the attempt does not count against max_attempts: free_attempts grows by one
	Record bool      // keep the attempt's outcome in the run's list of attempts
	// DeferredReason says why the target was not tried. The run keeps it until its next attempt.
	DeferredReason string

	// ReportBy, of a wait, is when the accepted attempt counts as lost unless its target has reported or sent a
	// heartbeat.
	ReportBy time.Time

	DeadLetter   bool
	PauseJob     bool // immediately, whatever pause_after_failures says
	CountFailure bool // pause_after_failures is set: pause the job if this failure is one too many
}

// Kind is what happens to the run.
type Kind int

// The kinds of decisions.
const (
	Ends    Kind = 1 // it leaves the live table
	Retries Kind = 2 // pending again, at RunAt
	Waits   Kind = 3 // state waiting: the target will report
)

// Decide says what the outcome of an attempt means for its run. No other code does; a lost session is one more
// outcome.
//
// The policy's deadline limits when a run may first start. It does not limit retries: max_attempts and the backoff do.
func Decide(in Input) Decision {
	switch in.Outcome.Kind {
	case job.Succeeded:
		return Decision{Kind: Ends, Ended: job.EndedSucceeded}
	case job.Accepted:
		return Decision{Kind: Waits, ReportBy: in.Now.Add(time.Duration(in.Policy.ReportTimeout))}
	case job.Cancelled:
		return Decision{Kind: Ends, Ended: job.EndedCancelled, Reason: cmp.Or(in.Outcome.Reason, job.ReasonCancelled)}
	case job.Failed:
		return in.failed()
	case job.Deferred:
		return in.deferred()
	case job.Snoozed:
		return in.snoozed()
	default:
		// This includes kinds that this version does not know: the true outcome is unknown.
		return in.lost()
	}
}

func (in *Input) failed() Decision {
	switch {
	case in.Outcome.Unknown && in.Policy.Delivery == job.AtMostOnce:
		return in.deadLetter(job.ReasonUnknownOutcome)
	case in.Outcome.Gone:
		d := in.deadLetter(job.ReasonGone)
		d.PauseJob = true
		return d
	case !in.Outcome.Retryable:
		return in.deadLetter(job.ReasonRejected)
	case in.tries() >= in.Policy.Retry.MaxAttempts:
		return in.deadLetter(job.ReasonAttempts)
	}
	wait := max(in.Policy.Retry.Delay(in.Run.Key, in.tries()), min(in.Outcome.RetryAfter, job.MaxRetryAfter))
	return in.retry(wait)
}

// snoozed retries without counting the attempt, because the worker asked to run it later. The attempt number is the
// fencing token and must not overflow, so a run that is snoozed too often fails.
func (in *Input) snoozed() Decision {
	if in.Run.Attempt >= snoozeLimit {
		return in.deadLetter(job.ReasonAttempts)
	}
	wait := min(max(in.Outcome.RetryAfter, 0), time.Duration(job.MaxSnooze))
	d := in.retry(wait)
	d.Free = true
	return d
}

func (in *Input) lost() Decision {
	switch {
	case in.Policy.Delivery == job.AtMostOnce:
		return in.deadLetter(job.ReasonUnknownOutcome)
	case in.tries() >= max(in.Policy.Retry.MaxAttempts, job.LostLimit):
		return in.deadLetter(job.ReasonLost)
	}
	return in.retry(lostDelay(in.tries()))
}

// snoozeLimit is how often a run may be snoozed.
const snoozeLimit = 10_000

// maxDeferred is the attempt number from which on a deferred attempt counts as failed, so that the number cannot
// overflow.
const maxDeferred = 30_000

func (in *Input) deferred() Decision {
	wait := min(max(in.Outcome.RetryAfter, 0), job.MaxRetryAfter)
	if in.Run.Attempt >= maxDeferred {
		in.Outcome.Retryable = true // nothing is wrong with the run itself
		return in.failed()
	}
	if in.Policy.Deadline > 0 && in.tries() <= 1 && in.Run.Origin.HasDeadline() {
		left := in.Run.DueAt.Add(time.Duration(in.Policy.Deadline)).Sub(in.Now)
		if left <= 0 {
			return Decision{Kind: Ends, Ended: job.EndedSkipped, Reason: job.ReasonExpired}
		}
		wait = min(wait, left) // which is an estimate: its turn may come earlier
	}
	d := in.retry(wait)
	d.Free, d.Record, d.DeferredReason = true, false, in.Outcome.Message
	return d
}

// retry makes the run pending again after a delay. The attempt counts and is recorded.
func (in *Input) retry(after time.Duration) Decision {
	return Decision{Kind: Retries, RunAt: in.Now.Add(after), Record: true}
}

// tries is how many attempts count. A redriven run has the attempts and the short first delay of a new run, because
// the user has fixed what failed. Its attempt number continues, because it is the fencing token.
func (in *Input) tries() int16 { return in.Run.Attempt - in.Run.FreeAttempts }

// lostDelay retries at once after the first loss: the node died, and the run is already late. Each further loss makes
// it more likely that the run kills its node, so the delay grows to protect the other runs there.
func lostDelay(attempt int16) time.Duration {
	delays := [...]time.Duration{0, time.Second, 5 * time.Second, 30 * time.Second, time.Minute}
	return delays[min(max(int(attempt), 1), len(delays))-1]
}

func (in *Input) deadLetter(why job.Reason) Decision {
	return Decision{
		Kind: Ends, Ended: job.EndedFailed, Reason: why,
		DeadLetter: true, CountFailure: in.Policy.PauseAfterFailures > 0,
	}
}
