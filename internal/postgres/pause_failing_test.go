package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestPausingFailingJobsDelaysNoCompletion: pausing a job waits for its cursor and for the audit log of its namespace.
// Thousands of jobs that fail together must not stop completions.
func TestPausingFailingJobsDelaysNoCompletion(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	d := definition("failing", past)
	d.PauseAfterFailures, d.Retry.MaxAttempts, d.Schedule.At, d.Schedule.Every = 1, 1, "", "1h"
	j := b.create(d)
	k, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID}, nil)
	require.NoError(t, err)
	attempts, err := b.store.Claim(t.Context(), b.session, []job.Key{k}, time.Second)
	require.NoError(t, err)
	require.Len(t, attempts, 1)

	tx := b.begin()
	_, err = tx.Exec(t.Context(), `LOCK audit_log IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	completed := make(chan error, 1)
	go func() {
		_, _, err := b.store.CompleteDecided(t.Context(), []job.Completion{attempts[0].Completion(failedOnce)})
		completed <- err
	}()
	b.awaitLocks(1, func() bool { return len(completed) > 0 })
	waited := len(completed) == 0
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-completed)
	require.False(t, waited, "the completion waited for the pause")

	n, err := b.store.PauseFailing(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, job.Paused, b.get(j).State)
	n, err = b.store.PauseFailing(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
}
