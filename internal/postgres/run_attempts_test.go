package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestAnAttemptBeforeTheLastKeepsItsStart: a retry stores when the attempt started, and on which node.
func TestAnAttemptBeforeTheLastKeepsItsStart(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	d := definition("failing", everyHour)
	d.Retry.MaxAttempts = 3
	j := b.create(d)
	k, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID}, nil)
	require.NoError(t, err)
	attempts, err := b.store.Claim(t.Context(), b.session, []job.Key{k}, time.Second)
	require.NoError(t, err)
	require.Len(t, attempts, 1)
	before, err := b.store.Run(t.Context(), b.namespace, k)
	require.NoError(t, err)
	_, _, err = b.store.CompleteDecided(t.Context(), []job.Completion{attempts[0].Completion(failedOnce)})
	require.NoError(t, err)
	after, err := b.store.Run(t.Context(), b.namespace, k)
	require.NoError(t, err)
	require.Len(t, after[0].Attempts, 1)
	first := after[0].Attempts[0]
	require.Equal(t, before[0].BeganAt(), first.StartedAt)
	require.Equal(t, b.session, first.Session)
	require.NotEmpty(t, before[0].Node)
	require.Equal(t, before[0].Node, first.Node)
	require.False(t, first.EndedAt.Before(first.StartedAt))
}
