package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// now returns the time of the database.
func (b *fenceBundle) now(t *testing.T) (now time.Time) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now))
	return now
}

// TestDeferredCostsNoAttempt: however often its target is busy, a run has all attempts of its policy. Each has its own
// number, so that a stale one changes nothing.
func TestDeferredCostsNoAttempt(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	ctx := t.Context()
	deferred := job.Outcome{Kind: job.Deferred, Message: "https://x is busy", RetryAfter: time.Minute}
	end := func(attempt int16, o job.Outcome) (job.Run, int) {
		t.Helper()
		retries, fenced, err := b.store.CompleteDecided(
			ctx, []job.Completion{{Key: b.key, Session: b.session, Attempt: attempt, Outcome: o}},
		)
		require.NoError(t, err)
		if len(retries) == 0 {
			return job.Run{}, fenced
		}
		_, err = b.pool.Exec(ctx, `UPDATE run SET run_at = now()`)
		require.NoError(t, err)
		return retries[0], fenced
	}
	for n := range int16(7) {
		require.Len(t, b.claim(t, b.session, 0), 1)
		before := b.now(t)
		run, _ := end(n+1, deferred)
		require.Equal(t, []int16{n + 1, n + 1}, []int16{run.Attempt, run.FreeAttempts})
		require.WithinRange(t, run.RunAt, before.Add(time.Minute), b.now(t).Add(time.Minute))
	}
	_, fenced := end(7, deferred)
	require.Equal(t, 1, fenced, "written twice it counts once")

	var namespace uuid.UUID
	require.NoError(t, b.pool.QueryRow(ctx, `SELECT namespace_id FROM job`).Scan(&namespace))
	entries, err := b.store.Run(ctx, namespace, b.key)
	require.NoError(t, err)
	require.Equal(t, "https://x is busy", entries[0].Message)
	require.Empty(t, entries[0].Attempts)

	failed := job.Outcome{Kind: job.Failed, Retryable: true, Message: "no"}
	for n := range int16(3) { // of max_attempts
		require.Len(t, b.claim(t, b.session, 0), 1)
		end(8+n, failed)
		if n == 0 {
			entries, err := b.store.Run(ctx, namespace, b.key)
			require.NoError(t, err)
			require.Empty(t, entries[0].Message, "that it was deferred once does not matter any more")
		}
	}
	var reason string
	require.NoError(t, b.pool.QueryRow(ctx, `SELECT reason FROM run_history`).Scan(&reason))
	require.Equal(t, "attempts", reason)
}

// TestDeferredFollowsItsJob: a deferred run follows a change that was made to its job while the attempt was running. If
// workers pull it now, no node delivers it.
func TestDeferredFollowsItsJob(t *testing.T) {
	t.Parallel()
	targets := map[string]job.Target{
		"a node":  {Kind: "noop", Config: json.RawMessage(`{}`)},
		"workers": {Kind: job.WorkerKind, Config: json.RawMessage(`{"handler":"h"}`)},
	}
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupFence(t, past)
			ctx := t.Context()
			claimed := b.claim(t, b.session, 0)
			require.Len(t, claimed, 1)
			var namespace uuid.UUID
			require.NoError(t, b.pool.QueryRow(ctx, `SELECT namespace_id FROM job`).Scan(&namespace))
			j, err := b.store.Job(ctx, namespace, b.key.Job)
			require.NoError(t, err)
			d := j.Definition
			d.Target, d.Queue, d.Priority, d.Concurrency = target, "other", 7, job.Concurrency{Key: "k", Max: 3}
			_, err = b.store.UpdateJob(
				ctx, job.UpdateParams{Namespace: namespace, ID: b.key.Job, Actor: "test", Definition: d},
			)
			require.NoError(t, err)
			retries, _, err := b.store.CompleteDecided(ctx, []job.Completion{
				claimed[0].Completion(job.Outcome{Kind: job.Deferred, Message: "the target is busy"}),
			})
			require.NoError(t, err)
			var same, deferred, needsSweep bool
			require.NoError(t, b.pool.QueryRow(ctx, `
SELECT (r.queue_id, r.priority, r.concurrency_key, r.concurrency_max, r.version, r.admit) = (j.queue_id, j.priority,
j.concurrency_key, j.concurrency_max, j.version, j.admit)
       AND r.handler IS NOT DISTINCT FROM j.handler AND r.priority = 7 AND r.state = 0, r.deferred_reason IS NOT NULL,
       r.needs_sweep
FROM run r JOIN job j ON j.id = r.job_id`).Scan(&same, &deferred, &needsSweep))
			require.True(t, same)
			pulled := target.Kind == job.WorkerKind
			require.Equal(t, !pulled, deferred)
			require.Equal(t, !pulled, needsSweep)
			require.Equal(t, !pulled, len(retries) == 1, "of those that nodes deliver")
		})
	}
}

// TestDeferredRunsKeepTheirDeadline: a run that was deferred and then waited for its queue has never started.
func TestDeferredRunsKeepTheirDeadline(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	d := definition("deadline", past)
	d.Deadline = job.Duration(time.Hour)
	j := b.create(d)
	b.exec(`UPDATE run SET due_at = now()`)
	k := b.keyOf(j)
	a := b.start("admit", b.session, k)
	_, _, err := b.store.CompleteDecided(t.Context(), []job.Completion{
		a.Completion(job.Outcome{Kind: job.Deferred, RetryAfter: time.Second, Message: "busy"}),
	})
	require.NoError(t, err)
	b.exec(`UPDATE run SET run_at = now(), due_at = due_at - interval '2 h'`)
	k.DueAt = k.DueAt.Add(-2 * time.Hour)
	admitted, err := b.store.AdmitOne(t.Context(), b.session, k, time.Second)
	require.NoError(t, err)
	require.Nil(t, admitted.Claimed)
	require.Equal(t, 1, b.count(`run_history WHERE reason = 'expired'`))
}

// TestAFailureWithAResultKeepsItsMessage: it says why the run failed.
func TestAFailureWithAResultKeepsItsMessage(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	a := b.claimAll(1)[0]
	_, _, err := b.store.CompleteDecided(t.Context(), []job.Completion{
		a.Completion(job.Outcome{Kind: job.Failed, Status: 3, Message: "no space", Result: `{"rows":7}`}),
	})
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`run_history WHERE message = 'no space' AND status = 3 AND result = '{"rows":7}'`))
}
