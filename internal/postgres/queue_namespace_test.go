package postgres_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestNamespacesOfQueues(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	mine, other := b.namespace, uuid.New()
	want := map[int32]uuid.UUID{}
	for _, ns := range []uuid.UUID{mine, other} {
		require.NoError(t, b.store.CreateQueue(t.Context(), job.QueueParams{Namespace: ns, Name: "q", Actor: "test"}))
		q, err := b.store.Queue(t.Context(), ns, "q")
		require.NoError(t, err)
		want[q.ID] = ns
	}
	queues := []int32{-1}
	for id := range want {
		queues = append(queues, id)
	}
	got, err := b.store.NamespacesOfQueues(t.Context(), queues)
	require.NoError(t, err)
	require.Equal(t, want, got)
}
