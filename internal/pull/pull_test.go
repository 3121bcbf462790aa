package pull_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestAWorkerGetsARunAndReportsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "greet", nil)
	s := b.open()
	require.Empty(t, b.claim(s, 5, time.Millisecond, "greet"), "nothing is due")
	key := b.trigger(id)
	got := b.claim(s, 5, patience, "greet")
	require.Len(t, got, 1)
	require.Equal(t, key.Job, got[0].Key.Job)
	require.Equal(t, "greet", got[0].Handler)
	require.Equal(t, "a", got[0].JobName)
	require.JSONEq(t, `{"n":1}`, got[0].Payload)
	require.EqualValues(t, 1, got[0].Number)
	require.Equal(t, []job.GoneReason{""}, b.succeed(s, got...))
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run_history WHERE ended = 1 AND session_id = $1`, s.ID))
	require.Equal(t, []job.GoneReason{job.GoneReported}, b.succeed(s, got...), "sent again")
}

func TestRunsOfAnUnknownHandlerStayPending(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.job("other", "unknown", nil)
	known := b.job("known", "greet", nil)
	for range 10 {
		b.trigger(other)
	}
	b.trigger(known)
	got := b.claim(b.open(), 50, patience, "greet")
	require.Len(t, got, 1)
	require.Equal(t, known, got[0].Key.Job)
	require.Equal(t, 10, b.number(`SELECT count(*) FROM run WHERE state = 0 AND attempt = 0 AND handler = 'unknown'`))
	require.Len(t, b.claim(b.open(), 50, patience, "unknown"), 10)
}

func TestPriorityThenTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	low := b.job("low", "x", nil)
	high := b.job("high", "y", func(d *job.Definition) { d.Priority = 7 })
	first, second := b.trigger(low), b.trigger(low)
	b.trigger(high)
	var got []job.Claimed
	s := b.open()
	for range 3 {
		got = append(got, b.claim(s, 1, patience, "x", "y")...)
	}
	require.Len(t, got, 3)
	require.Equal(t, high, got[0].Key.Job)
	require.True(t, first.DueAt.Equal(got[1].Key.DueAt))
	require.True(t, second.DueAt.Equal(got[2].Key.DueAt))
}

// A run that is due soon is claimed on time, and never early.
func TestNeverEarly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	s := b.open()
	require.Empty(t, b.claim(s, 1, time.Millisecond, "x"))
	b.trigger(id)
	b.exec(`UPDATE run SET run_at = clock_timestamp() + interval '700 ms'`)
	got := b.claim(s, 1, patience, "x")
	require.Len(t, got, 1)
	late := b.number(`SELECT (extract(epoch FROM claimed_at - run_at) * 1000)::int FROM run`)
	require.GreaterOrEqual(t, late, 0)
	t.Logf("claimed %d ms after its run time", late)
}

func TestSnoozeAndFailures(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.trigger(b.job("a", "x", func(d *job.Definition) {
		d.Retry = job.Retry{MaxAttempts: 2, Base: job.Duration(time.Millisecond)}
	}))
	s := b.open()
	got := b.claim(s, 1, patience, "x")
	for i := range 3 { // none of these counts as an attempt
		require.EqualValues(t, i+1, got[0].Number)
		b.report(s, got[0], job.Outcome{Kind: job.Snoozed, RetryAfter: time.Millisecond})
		got = b.claim(s, 1, patience, "x")
	}
	require.EqualValues(t, 4, got[0].Number)
	b.report(s, got[0], job.Outcome{Kind: job.Failed, Retryable: true, Message: "no"})
	require.Zero(t, b.number(`SELECT count(*) FROM dead_letter`), "it was the first of two")
	got = b.claim(s, 1, patience, "x")
	require.EqualValues(t, 5, got[0].Number)
	b.report(s, got[0], job.Outcome{Kind: job.Failed, Retryable: true, Message: "no"})
	require.Equal(t, 1, b.number(`SELECT count(*) FROM dead_letter WHERE reason = 'attempts'`))
}

func TestAResultIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.trigger(b.job("a", "x", nil))
	s := b.open()
	got := b.claim(s, 1, patience, "x")
	b.report(s, got[0], job.Outcome{Kind: job.Succeeded, Result: `{"rows":7}`})
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run_history WHERE result = '{"rows":7}'`))
}

// A job can move from workers to another target, whose runs the engine delivers, and back.
func TestAJobMovesToWorkersAndBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	key := b.trigger(id)
	all := []int16{key.Partition}
	b.update(id, func(d *job.Definition) { d.Target = job.Target{Kind: "noop"} })
	require.Empty(t, b.claim(b.open(), 1, 300*time.Millisecond, "x"))
	swept, err := b.store.Sweep(t.Context(), job.SweepParams{
		Partitions: all, From: key.DueAt.Add(-time.Minute), To: key.DueAt.Add(time.Minute),
	})
	require.NoError(t, err)
	require.Len(t, swept, 1)
	b.update(id, func(d *job.Definition) { d.Target = worker("y") })
	pending, err := b.store.Pending(t.Context(), all, key.DueAt.Add(time.Minute))
	require.NoError(t, err)
	require.Empty(t, pending)
	require.Len(t, b.claim(b.open(), 1, patience, "y"), 1)
}

// The handler of a job changes while one of its runs is blocked. The run goes to workers of the new handler.
func TestABlockedRunFollowsItsJobToAnotherHandler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", func(d *job.Definition) { d.Overlap = job.OverlapQueueAll })
	b.trigger(id)
	b.trigger(id)
	s := b.open()
	first := b.claim(s, 1, patience, "x")
	require.Len(t, first, 1)
	require.Empty(t, b.claim(s, 1, 300*time.Millisecond, "x"))
	b.update(id, func(d *job.Definition) { d.Target = worker("y") })
	b.succeed(s, first...)
	require.Empty(t, b.claim(s, 1, 1500*time.Millisecond, "x"))
	require.Len(t, b.claim(s, 1, patience, "y"), 1)
}

// A worker that disconnects while its poll waits leaves nothing behind.
func TestADisconnectedPollGetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.open()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = b.pull.Claim(ctx, s, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: patience})
	}()
	b.waiting(1)
	cancel()
	<-done
	b.waiting(0)
	b.trigger(b.job("a", "x", nil))
	require.Len(t, b.claim(b.open(), 1, patience, "x"), 1)
}
