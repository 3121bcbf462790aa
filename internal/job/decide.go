package job

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"
)

// LostLimit is how many attempts a run has at least when they are lost. One
// crash must not end a run whose max_attempts is 1; but a run that kills its
// worker each time must not be tried for ever.
const LostLimit = 5

// MaxRetryAfter bounds what a target can ask for.
const MaxRetryAfter = 24 * time.Hour

// DecideInput is an attempt that came to an outcome.
type DecideInput struct {
	Run     Run    // Attempt is the number of the attempt
	Policy  Policy // with defaults
	Outcome Outcome
	Now     time.Time // the database's instant of the transaction
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

	// ReportBy, of a wait, is when the accepted attempt counts as lost unless its target
	// has reported or sent a heartbeat.
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

// Decide says what an attempt's outcome means for its run. It is the only place
// that does; a lost session is one more outcome.
//
// The deadline of a policy has no say here: it limits when a run may first
// start, not how long it may be retried. Max attempts and the backoff do that.
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
		// Also a kind that this version does not know: what it came to is unknown.
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

// snoozed: the worker cannot do it now, through no fault of anybody. The number of
// attempts, which fences, is bounded all the same: who snoozes for ever fails.
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

// maxDeferred is the number of attempts from which on one that is deferred counts:
// the number is a small one, and must not run out.
const maxDeferred = 30_000

func (in *DecideInput) deferred() Decision {
	first := in.tries() <= 1 && in.Run.Origin != FromRedrive
	switch {
	case in.Run.Attempt >= maxDeferred:
		in.Outcome.Retryable = true // there is nothing wrong with it
		return in.failed()
	case first && in.Policy.Deadline > 0 && in.Now.After(in.Run.DueAt.Add(time.Duration(in.Policy.Deadline))):
		return Decision{Kind: DecideFinish, Ended: EndedSkipped, Reason: ReasonExpired}
	}
	d := in.retry(min(max(in.Outcome.RetryAfter, 0), MaxRetryAfter))
	d.Free, d.Record, d.DeferredReason = true, false, in.Outcome.Message
	return d
}

// retry makes the run pending again after a delay. The attempt counts and is recorded.
func (in *DecideInput) retry(after time.Duration) Decision {
	return Decision{Kind: DecideRetry, RunAt: in.Now.Add(after), Record: true}
}

// tries is how many attempts count. A redrive gives a run as many new ones as a
// new run has, and begins with the shortest delay: whoever asks for it has put
// right what failed. The number of the attempt goes on, for it is the fence.
func (in *DecideInput) tries() int16 { return in.Run.Attempt - in.Run.FreeAttempts }

// lostDelay: whose node died is tried again at once, for it is late already
// through no fault of its own; each further time suggests that the fault is its
// own, and gives its neighbours on the next node more time.
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

// noJitter is the value of Retry.Jitter that means none, as 0 means the default.
const noJitter = -1

// Delay is how long to wait after a failed attempt, from 0 to Cap. The random
// part belongs to (run, attempt): every node computes the same.
func (r Retry) Delay(key Key, attempt int16) time.Duration {
	n := max(int64(attempt), 1)
	base, limit := max(int64(r.Base), 0), max(int64(r.Cap), 0)
	delay := limit // what would exceed it, or overflow
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
	if !(r.Jitter > 0) { // none, and NaN
		return time.Duration(delay)
	}
	j := min(r.Jitter, 1)
	jittered := float64(delay) * (1 - j + j*chance(key, attempt))
	return min(time.Duration(delay), time.Duration(jittered).Round(time.Microsecond))
}

// chance is a number in [0, 1) that belongs to (run, attempt).
func chance(key Key, attempt int16) float64 {
	b := key.encode()
	sum := sha256.Sum256(binary.BigEndian.AppendUint16(b[:], uint16(attempt)))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (math.MaxUint64>>11 + 1)
}
