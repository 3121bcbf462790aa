package finish_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/finish"
)

// noon is a Monday.
var noon = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

var someKey = job.Key{Job: uuid.MustParse("01940b7e-6f7f-7000-8000-000000000001"), DueAt: noon}

func retryIn(d time.Duration) finish.Decision {
	return finish.Decision{Kind: finish.Retries, RunAt: at(d), Record: true}
}

func deferFor(d time.Duration, why string) finish.Decision {
	return finish.Decision{Kind: finish.Retries, RunAt: at(d), Free: true, DeferredReason: why}
}

func dead(why job.Reason) finish.Decision {
	return finish.Decision{Kind: finish.Ends, Ended: job.EndedFailed, Reason: why, DeadLetter: true}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	failed := job.Outcome{Kind: job.Failed, Retryable: true}
	after := func(d time.Duration) job.Outcome {
		return job.Outcome{Kind: job.Failed, Retryable: true, RetryAfter: d}
	}
	lost := job.Outcome{Kind: job.Lost}
	gone := dead("gone")
	gone.PauseJob = true
	with := func(n int16) job.Policy { return job.Policy{Retry: job.Retry{MaxAttempts: n, Jitter: -1}} }
	atMostOnce := job.Policy{Delivery: job.AtMostOnce, Retry: job.Retry{Jitter: -1}}
	for name, tc := range map[string]struct {
		policy  job.Policy // by default: 3 attempts, exponential from 5s, no jitter
		attempt int16
		free    int16 // attempts before a redrive
		due     time.Duration
		outcome job.Outcome
		want    finish.Decision
	}{
		"a redriven run has the tries of a new one": {
			attempt: 4, free: 3, outcome: failed, want: retryIn(5 * time.Second),
		},
		"a redriven run: the last of them is final": {
			attempt: 6, free: 3, outcome: failed, want: dead("attempts"),
		},
		"a redriven run that is lost is retried at once":   {attempt: 4, free: 3, outcome: lost, want: retryIn(0)},
		"a redriven run that is lost again and again ends": {attempt: 8, free: 3, outcome: lost, want: dead("lost")},
		"a redriven run of at most once is not retried": {
			policy: atMostOnce, attempt: 4, free: 3, outcome: lost, want: dead("unknown_outcome"),
		},
		"success finishes": {
			outcome: job.Outcome{Kind: job.Succeeded},
			want:    finish.Decision{Kind: finish.Ends, Ended: job.EndedSucceeded},
		},
		"success on the last attempt finishes": {
			attempt: 3, outcome: job.Outcome{Kind: job.Succeeded},
			want: finish.Decision{Kind: finish.Ends, Ended: job.EndedSucceeded},
		},
		"accepted waits for the report": {
			outcome: job.Outcome{Kind: job.Accepted}, want: finish.Decision{Kind: finish.Waits, ReportBy: at(time.Hour)},
		},
		"a deferred run is retried when its target asked": {
			outcome: job.Outcome{Kind: job.Deferred, RetryAfter: time.Minute, Message: "busy"},
			want:    deferFor(time.Minute, "busy"),
		},
		"deferred on the last attempt is retried": {
			attempt: 3, outcome: job.Outcome{Kind: job.Deferred}, want: deferFor(0, ""),
		},
		"deferred past its deadline it expires": {
			policy: job.Policy{Deadline: job.Duration(time.Second)}, due: -time.Minute,
			outcome: job.Outcome{Kind: job.Deferred},
			want:    finish.Decision{Kind: finish.Ends, Ended: job.EndedSkipped, Reason: "expired"},
		},
		"deferred before its deadline it waits": {
			policy: job.Policy{Deadline: job.Duration(time.Hour)}, due: -time.Minute,
			outcome: job.Outcome{Kind: job.Deferred}, want: deferFor(0, ""),
		},
		"deferred beyond its deadline it is tried then": {
			policy: job.Policy{Deadline: job.Duration(time.Hour)}, due: -time.Minute,
			outcome: job.Outcome{Kind: job.Deferred, RetryAfter: time.Hour}, want: deferFor(59*time.Minute, ""),
		},
		"deferred at its deadline it expires": {
			policy: job.Policy{Deadline: job.Duration(time.Minute)}, due: -time.Minute,
			outcome: job.Outcome{Kind: job.Deferred, RetryAfter: time.Hour},
			want:    finish.Decision{Kind: finish.Ends, Ended: job.EndedSkipped, Reason: "expired"},
		},
		"a retry that is deferred does not expire": {
			policy: job.Policy{Deadline: job.Duration(time.Second)}, due: -time.Minute, attempt: 2,
			outcome: job.Outcome{Kind: job.Deferred}, want: deferFor(0, ""),
		},
		"numbers do not run out": {attempt: 30_000, outcome: job.Outcome{Kind: job.Deferred}, want: dead("attempts")},
		"cancelled by a user finishes and is no dead letter": {
			outcome: job.Outcome{Kind: job.Cancelled},
			want:    finish.Decision{Kind: finish.Ends, Ended: job.EndedCancelled, Reason: "cancelled"},
		},
		"cancelled by a newer run says so": {
			outcome: job.Outcome{Kind: job.Cancelled, Reason: job.ReasonReplaced},
			want:    finish.Decision{Kind: finish.Ends, Ended: job.EndedCancelled, Reason: "replaced"},
		},
		"a permanent failure is not retried":  {outcome: job.Outcome{Kind: job.Failed}, want: dead("rejected")},
		"a failure is retried after the base": {outcome: failed, want: retryIn(5 * time.Second)},
		"a second failure is retried after twice the base": {
			attempt: 2, outcome: failed, want: retryIn(10 * time.Second),
		},
		"a failure of the last attempt is final":          {attempt: 3, outcome: failed, want: dead("attempts")},
		"a failure beyond the last attempt is final":      {attempt: 4, outcome: failed, want: dead("attempts")},
		"one attempt: the first failure is final":         {policy: with(1), outcome: failed, want: dead("attempts")},
		"what the target asks for counts if it is longer": {outcome: after(time.Minute), want: retryIn(time.Minute)},
		"what the target asks for does not shorten the backoff": {
			outcome: after(time.Second), want: retryIn(5 * time.Second),
		},
		"what the target asks for is at most a day": {
			outcome: after(1000 * time.Hour), want: retryIn(24 * time.Hour),
		},
		"what the target asks for is never in the past": {outcome: after(-time.Hour), want: retryIn(5 * time.Second)},
		"what the target asks for gives no further attempt": {
			attempt: 3, outcome: after(time.Minute), want: dead("attempts"),
		},
		"a target that is gone pauses the job": {outcome: job.Outcome{Kind: job.Failed, Gone: true}, want: gone},
		"a target that is gone is not retried, whatever it says": {
			outcome: job.Outcome{Kind: job.Failed, Gone: true, Retryable: true, RetryAfter: time.Second}, want: gone,
		},
		"at most once: a timeout may have happened, so it is final": {
			policy: atMostOnce, outcome: job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true},
			want: dead("unknown_outcome"),
		},
		"at most once: what was never sent is retried": {
			policy: atMostOnce, outcome: failed, want: retryIn(5 * time.Second),
		},
		"at least once: a timeout is retried": {
			outcome: job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true}, want: retryIn(5 * time.Second),
		},
		"lost once: again at once": {outcome: lost, want: retryIn(0)},
		"lost twice: again after a second": {
			attempt: 2, outcome: lost, want: retryIn(time.Second),
		},
		"lost three times: again after five": {
			attempt: 3, outcome: lost, want: retryIn(5 * time.Second),
		},
		"lost four times: again after thirty": {
			attempt: 4, outcome: lost, want: retryIn(30 * time.Second),
		},
		"lost five times: no more":                               {attempt: 5, outcome: lost, want: dead("lost")},
		"lost with one attempt allowed: a crash does not end it": {policy: with(1), outcome: lost, want: retryIn(0)},
		"lost with many attempts allowed: all are used": {
			policy: with(10), attempt: 9, outcome: lost, want: retryIn(time.Minute),
		},
		"lost with many attempts allowed: the last is final": {
			policy: with(10), attempt: 10, outcome: lost, want: dead("lost"),
		},
		"lost, at most once: it may have happened": {policy: atMostOnce, outcome: lost, want: dead("unknown_outcome")},
		"failed, at most once: it surely did not happen": {
			policy: atMostOnce, outcome: failed, want: retryIn(5 * time.Second),
		},
		"a kind of a later version is an unknown outcome": {
			policy: atMostOnce, outcome: job.Outcome{Kind: 99}, want: dead("unknown_outcome"),
		},
		"a deadline does not limit retries": {
			policy: job.Policy{Deadline: 1, Retry: job.Retry{Jitter: -1}}, outcome: failed,
			want: retryIn(5 * time.Second),
		},
		"no attempt number: as the first":     {attempt: -1, outcome: lost, want: retryIn(0)},
		"the largest attempt number is final": {attempt: math.MaxInt16, outcome: lost, want: dead("lost")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.attempt == 0 {
				tc.attempt = 1
			}
			if tc.policy == (job.Policy{}) {
				tc.policy = with(3)
			}
			key := someKey
			key.DueAt = key.DueAt.Add(tc.due)
			got := finish.Decide(finish.Input{
				Run:    job.Run{Key: key, Attempt: tc.attempt, FreeAttempts: tc.free, State: job.Running},
				Policy: tc.policy.WithDefaults(), Outcome: tc.outcome, Now: noon,
			})
			require.Equal(t, tc.want, got)
		})
	}
}

func TestFailuresAreCountedWhereTheyPauseTheJob(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pauseAfter int32
		attempt    int16
		outcome    job.Outcome
		count      bool
	}{
		"a failed run counts": {
			pauseAfter: 3, attempt: 3, outcome: job.Outcome{Kind: job.Failed, Retryable: true}, count: true,
		},
		"a refused run counts": {pauseAfter: 3, attempt: 1, outcome: job.Outcome{Kind: job.Failed}, count: true},
		"a lost run counts":    {pauseAfter: 3, attempt: 5, outcome: job.Outcome{Kind: job.Lost}, count: true},
		"a failed attempt does not": {
			pauseAfter: 3, attempt: 1, outcome: job.Outcome{Kind: job.Failed, Retryable: true},
		},
		"a cancelled run does not": {pauseAfter: 3, attempt: 1, outcome: job.Outcome{Kind: job.Cancelled}},
		"a success does not":       {pauseAfter: 3, attempt: 1, outcome: job.Outcome{Kind: job.Succeeded}},
		"without pause_after_failures a failure does not count": {
			attempt: 3, outcome: job.Outcome{Kind: job.Failed, Retryable: true},
		},
		"without pause_after_failures a success does not count": {
			attempt: 1, outcome: job.Outcome{Kind: job.Succeeded},
		},
		"accepted is neither": {pauseAfter: 1, attempt: 1, outcome: job.Outcome{Kind: job.Accepted}},
	} {
		got := finish.Decide(finish.Input{
			Run:    job.Run{Key: someKey, Attempt: tc.attempt},
			Policy: job.Policy{PauseAfterFailures: tc.pauseAfter}.WithDefaults(), Outcome: tc.outcome, Now: noon,
		})
		require.Equal(t, tc.count, got.CountFailure, name)
	}
}

func TestEveryEndButSuccessHasAReason(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := finish.Input{
			Run: job.Run{Key: someKey, Attempt: rapid.Int16().Draw(t, "attempt")},
			Policy: job.Policy{
				Retry:              job.Retry{MaxAttempts: rapid.Int16Range(0, 100).Draw(t, "max")},
				Delivery:           rapid.SampledFrom([]job.Delivery{"", job.AtMostOnce}).Draw(t, "delivery"),
				PauseAfterFailures: rapid.Int32Range(0, 2).Draw(t, "pause after"),
			}.WithDefaults(),
			Outcome: job.Outcome{
				Kind:       job.OutcomeKind(rapid.IntRange(0, 7).Draw(t, "kind")),
				Retryable:  rapid.Bool().Draw(t, "retryable"),
				Gone:       rapid.Bool().Draw(t, "gone"),
				RetryAfter: time.Duration(rapid.Int64().Draw(t, "retry after")),
			},
			Now: noon,
		}
		d := finish.Decide(in)
		switch d.Kind {
		case finish.Ends:
			require.NotZero(t, d.Ended)
			require.Equal(t, d.Ended == job.EndedSucceeded, d.Reason == job.ReasonNone)
			require.Equal(t, d.Ended == job.EndedFailed, d.DeadLetter)
			require.Zero(t, d.RunAt)
		case finish.Retries:
			require.False(t, d.RunAt.Before(noon))
			deferred, snoozed := in.Outcome.Kind == job.Deferred &&
				in.Run.Attempt < 30_000, in.Outcome.Kind == job.Snoozed
			require.Equal(t, deferred || snoozed, d.Free)
			require.Equal(t, !deferred, d.Record)
			if deferred {
				require.False(t, d.RunAt.After(at(24*time.Hour)))
				break
			}
			if snoozed {
				require.Less(t, in.Run.Attempt, int16(10_000), "it ends")
				require.False(t, d.RunAt.After(at(30*24*time.Hour)))
				break
			}
			require.Less(t, in.Run.Attempt, max(in.Policy.Retry.MaxAttempts, job.LostLimit), "it ends")
			require.False(t, d.RunAt.After(at(24*time.Hour)))
		case finish.Waits:
			require.Equal(t, job.Accepted, in.Outcome.Kind)
		default:
			require.Fail(t, "no decision")
		}
	})
}

// TestADeferredBackfillDoesNotExpire: a user asked for it long after its due time, so the deadline does not apply to it,
// neither when it is admitted nor when its target is busy.
func TestADeferredBackfillDoesNotExpire(t *testing.T) {
	t.Parallel()
	for origin, want := range map[job.Origin]finish.Kind{
		job.FromSchedule: finish.Ends, job.FromTrigger: finish.Ends,
		job.FromBackfill: finish.Retries, job.FromRedrive: finish.Retries,
	} {
		got := finish.Decide(finish.Input{
			Run:     job.Run{Key: someKey, Attempt: 1, Origin: origin, State: job.Running},
			Policy:  job.Policy{Deadline: job.Duration(time.Minute)}.WithDefaults(),
			Outcome: job.Outcome{Kind: job.Deferred, Message: "busy"},
			Now:     at(time.Hour),
		})
		require.Equal(t, want, got.Kind, "origin %d", origin)
	}
}

func TestASnoozeDoesNotCountAsAnAttempt(t *testing.T) {
	t.Parallel()
	in := finish.Input{
		Run:     job.Run{Attempt: 7},
		Policy:  job.Policy{Retry: job.Retry{MaxAttempts: 1}}.WithDefaults(),
		Outcome: job.Outcome{Kind: job.Snoozed, RetryAfter: time.Hour},
		Now:     noon,
	}
	want := finish.Decision{Kind: finish.Retries, RunAt: at(time.Hour), Free: true, Record: true}
	require.Equal(t, want, finish.Decide(in))
	in.Outcome.RetryAfter = 400 * 24 * time.Hour
	require.Equal(t, at(30*24*time.Hour), finish.Decide(in).RunAt)
	in.Outcome.RetryAfter = -time.Hour
	require.Equal(t, noon, finish.Decide(in).RunAt)
	in.Run.Attempt = 10_000
	require.Equal(t, job.ReasonAttempts, finish.Decide(in).Reason, "not for ever")
}
