package job

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"
)

// LostLimit is the minimum number of attempts before lost attempts end a run. One crash must not end a run whose
// max_attempts is 1, but a run that kills its worker each time must end.
const LostLimit = 5

// MaxRetryAfter bounds the delay that a target can ask for.
const MaxRetryAfter = 24 * time.Hour

// DecideInput is an attempt with its outcome.
type DecideInput struct {
	Run     Run    // Run.Attempt is the number of this attempt
	Policy  Policy // with defaults
	Outcome Outcome
	Now     time.Time // the database instant of the transaction
}

// Decision is what an outcome means.
type Decision struct {
	Kind   DecisionKind
	Ended  Ended  // of a finish
	Reason Reason // of a finish other than success

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

// DecisionKind is what happens to the run.
type DecisionKind int

// The kinds of decisions.
const (
	DecideFinish DecisionKind = 1 // it leaves the live table
	DecideRetry  DecisionKind = 2 // pending again, at RunAt
	DecideWait   DecisionKind = 3 // state waiting: the target will report
)

// Decide says what the outcome of an attempt means for its run. No other code does; a lost session is one more
// outcome.
//
// The policy's deadline limits when a run may first start. It does not limit retries: max_attempts and the backoff do.
func Decide(in DecideInput) Decision {
	switch in.Outcome.Kind {
	case Succeeded:
		return Decision{Kind: DecideFinish, Ended: EndedSucceeded}
	case Accepted:
		return Decision{Kind: DecideWait, ReportBy: in.Now.Add(time.Duration(in.Policy.ReportTimeout))}
	case Cancelled:
		return Decision{Kind: DecideFinish, Ended: EndedCancelled, Reason: orElse(in.Outcome.Reason, ReasonCancelled)}
	case Failed:
		return in.failed()
	case Deferred:
		return in.deferred()
	case Snoozed:
		return in.snoozed()
	default:
		// This includes kinds that this version does not know: the true outcome is unknown.
		return in.lost()
	}
}

func (in *DecideInput) failed() Decision {
	switch {
	case in.Outcome.Unknown && in.Policy.Delivery == AtMostOnce:
		return in.deadLetter(ReasonUnknownOutcome)
	case in.Outcome.Gone:
		d := in.deadLetter(ReasonGone)
		d.PauseJob = true
		return d
	case !in.Outcome.Retryable:
		return in.deadLetter(ReasonRejected)
	case in.tries() >= in.Policy.Retry.MaxAttempts:
		return in.deadLetter(ReasonAttempts)
	}
	wait := max(in.Policy.Retry.Delay(in.Run.Key, in.tries()), min(in.Outcome.RetryAfter, MaxRetryAfter))
	return in.retry(wait)
}

// snoozed retries without counting the attempt, because the worker asked to run it later. The attempt number is the
// fencing token and must not overflow, so a run that is snoozed too often fails.
func (in *DecideInput) snoozed() Decision {
	if in.Run.Attempt >= snoozeLimit {
		return in.deadLetter(ReasonAttempts)
	}
	wait := min(max(in.Outcome.RetryAfter, 0), time.Duration(MaxSnooze))
	d := in.retry(wait)
	d.Free = true
	return d
}

func (in *DecideInput) lost() Decision {
	switch {
	case in.Policy.Delivery == AtMostOnce:
		return in.deadLetter(ReasonUnknownOutcome)
	case in.tries() >= max(in.Policy.Retry.MaxAttempts, LostLimit):
		return in.deadLetter(ReasonLost)
	}
	return in.retry(lostDelay(in.tries()))
}

// maxDeferred is the attempt number from which on a deferred attempt counts as failed, so that the number cannot
// overflow.
const maxDeferred = 30_000

func (in *DecideInput) deferred() Decision {
	wait := min(max(in.Outcome.RetryAfter, 0), MaxRetryAfter)
	if in.Run.Attempt >= maxDeferred {
		in.Outcome.Retryable = true // nothing is wrong with the run itself
		return in.failed()
	}
	if in.Policy.Deadline > 0 && in.tries() <= 1 && in.Run.Origin.HasDeadline() {
		left := in.Run.DueAt.Add(time.Duration(in.Policy.Deadline)).Sub(in.Now)
		if left <= 0 {
			return Decision{Kind: DecideFinish, Ended: EndedSkipped, Reason: ReasonExpired}
		}
		wait = min(wait, left) // which is an estimate: its turn may come earlier
	}
	d := in.retry(wait)
	d.Free, d.Record, d.DeferredReason = true, false, in.Outcome.Message
	return d
}

// retry makes the run pending again after a delay. The attempt counts and is recorded.
func (in *DecideInput) retry(after time.Duration) Decision {
	return Decision{Kind: DecideRetry, RunAt: in.Now.Add(after), Record: true}
}

// tries is how many attempts count. A redriven run has the attempts and the short first delay of a new run, because
// the user has fixed what failed. Its attempt number continues, because it is the fencing token.
func (in *DecideInput) tries() int16 { return in.Run.Attempt - in.Run.FreeAttempts }

// lostDelay retries at once after the first loss: the node died, and the run is already late. Each further loss makes
// it more likely that the run kills its node, so the delay grows to protect the other runs there.
func lostDelay(attempt int16) time.Duration {
	delays := [...]time.Duration{0, time.Second, 5 * time.Second, 30 * time.Second, time.Minute}
	return delays[min(max(int(attempt), 1), len(delays))-1]
}

func (in *DecideInput) deadLetter(why Reason) Decision {
	return Decision{
		Kind: DecideFinish, Ended: EndedFailed, Reason: why,
		DeadLetter: true, CountFailure: in.Policy.PauseAfterFailures > 0,
	}
}

// noJitter is the value of Retry.Jitter for no jitter, because 0 means the default.
const noJitter = -1

// Delay is how long to wait after a failed attempt, from 0 to Cap. The random part is derived from the run and the
// attempt, so every node computes the same delay.
func (r Retry) Delay(key Key, attempt int16) time.Duration {
	n := max(int64(attempt), 1)
	base, limit := max(int64(r.Base), 0), max(int64(r.Cap), 0)
	delay := limit // unless the backoff gives less
	switch r.Backoff {
	case BackoffNone:
		delay = 0
	case BackoffFixed:
		delay = min(base, limit)
	case BackoffLinear:
		if base <= limit/n {
			delay = base * n
		}
	default: // BackoffExponential
		if double := min(n-1, 62); base <= limit>>double {
			delay = base << double
		}
	}
	if !(r.Jitter > 0) { // also true for NaN
		return time.Duration(delay)
	}
	j := min(r.Jitter, 1)
	jittered := float64(delay) * (1 - j + j*chance(key, attempt))
	return min(time.Duration(delay), time.Duration(jittered).Round(time.Microsecond))
}

// chance is a number in [0, 1) derived from the run and the attempt.
func chance(key Key, attempt int16) float64 {
	b := key.Bytes()
	sum := sha256.Sum256(binary.BigEndian.AppendUint16(b[:], uint16(attempt)))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (math.MaxUint64>>11 + 1)
}
