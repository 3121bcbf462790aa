package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestARetryIsAsTheJobIsNow: a retry follows a change that was made to its job while the attempt was running.
func TestARetryIsAsTheJobIsNow(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: 5})
	b.limit("wide", job.QueueLimits{MaxRunning: 5})
	old := job.Concurrency{Key: "old", Max: 3}
	d := definition("edited", past)
	d.Queue, d.Concurrency, d.Retry = "narrow", old, job.Retry{MaxAttempts: 5, Backoff: job.BackoffNone}
	j := b.create(d)
	attempts, _ := b.claim(b.keyOf(j))
	require.Len(t, attempts, 1)
	d.Queue, d.Priority, d.Concurrency, d.Overlap = "wide", 8, job.Concurrency{Key: "new", Max: 2}, job.OverlapQueue
	j = b.update(j, d)

	retries, _, err := b.store.CompleteDecided(
		t.Context(), []job.Completion{attempts[0].Completion(failedOnce)},
	)
	require.NoError(t, err)
	b.exact()
	var queue string
	var r job.Run
	var admit int
	require.NoError(
		t,
		b.pool.QueryRow(t.Context(), `SELECT q.name, r.queue_id, r.priority, r.version, r.concurrency_key,
			r.concurrency_max, r.admit FROM run r JOIN queue q ON q.id = r.queue_id`).
			Scan(&queue, &r.Queue, &r.Priority, &r.Version, &r.ConcurrencyKey, &r.ConcurrencyMax, &admit),
	)
	require.Equal(t, "wide", queue)
	require.EqualValues(t, 8, r.Priority)
	require.Equal(t, j.Version, r.Version)
	require.Equal(t, d.Concurrency.ID(b.namespace), r.ConcurrencyKey)
	require.EqualValues(t, 2, r.ConcurrencyMax)
	require.EqualValues(t, job.AdmitIfFirst, admit, "its overlap is to be decided about")
	require.Len(t, retries, 1)
	require.Equal(t, r.Queue, retries[0].Queue, "and so the wheel knows it")
	require.Equal(t, r.ConcurrencyKey, retries[0].ConcurrencyKey)
	require.Equal(t, r.ConcurrencyMax, retries[0].ConcurrencyMax)
	require.Equal(t, r.Priority, retries[0].Priority)

	d.Concurrency = job.Concurrency{}
	admitted, err := b.store.AdmitOne(t.Context(), b.session, attempts[0].Key, time.Second)
	require.NoError(t, err)
	require.NotNil(t, admitted.Claimed)
	b.exact()
	b.update(j, d)
	_, _, err = b.store.CompleteDecided(
		t.Context(), []job.Completion{admitted.Claimed.Completion(failedOnce)},
	)
	require.NoError(t, err)
	b.exact()
	require.Equal(t, 1, b.count(`run WHERE concurrency_key IS NULL AND state = 0`))
}
