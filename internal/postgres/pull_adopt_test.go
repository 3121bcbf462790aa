package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestAdoptStaysInItsQueue: who knows the session of a node, or of a worker of another queue, does not get its runs.
func TestAdoptStaysInItsQueue(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	attempts := b.claimAll(1) // by a node
	runs := []job.Lease{{Key: attempts[0].Key, Attempt: attempts[0].Number}}
	for _, queue := range []string{"other", "narrow"} {
		_, gone, err := b.store.OpenSession(t.Context(), job.SessionOrder{Namespace: b.namespace, Queue: queue, Make: true, Name: "w", TTL: time.Minute, Adopt: b.session, Runs: runs})
		require.NoError(t, err)
		require.Len(t, gone, 1, queue)
		require.Equal(t, 1, b.count(`run WHERE state = 1 AND session_id = '`+b.session.String()+`'`))
	}
	// Nor what became of them.
	_, err := b.store.CancelRun(t.Context(), job.RunOrder{Namespace: b.namespace, Key: attempts[0].Key, Actor: "ann"})
	require.NoError(t, err)
	_, gone, err := b.store.OpenSession(t.Context(), job.SessionOrder{Namespace: b.namespace, Queue: "other", Name: "w", TTL: time.Minute, Adopt: b.session, Runs: runs})
	require.NoError(t, err)
	require.Equal(t, job.GoneLost, gone[0].Why)
}

// TestAWorkersForgottenRunIsRescued: its session lives, and no heartbeat names the run.
func TestAWorkersForgottenRunIsRescued(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.claimAll(2)
	rescued := func() int {
		// A store of its own looks at all partitions at once, others each minute.
		_, found, err := postgres.NewStore(pgtest.AsServer(t, b.pool)).Rescue(t.Context(), allPartitions(), 10)
		require.NoError(t, err)
		return found
	}
	b.exec(`UPDATE run SET handler = 'h'`)
	require.Zero(t, rescued())
	b.exec(`UPDATE run SET claimed_at = now() - interval '1 h' WHERE ctid = (SELECT ctid FROM run LIMIT 1)`)
	require.Equal(t, 1, rescued())
}
