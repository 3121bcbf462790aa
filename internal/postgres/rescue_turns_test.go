package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestWorkersOfNamespacesAreRescuedInTurns: many workers of one namespace that are gone do not delay the rescue of the
// runs of others, and neither does a rescue that fails.
func TestWorkersOfNamespacesAreRescuedInTurns(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	const many = 300
	// lease leases runs to workers that are gone.
	lease := func(workers int) (queue int32) {
		t.Helper()
		w, _, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: b.namespace, Queue: "work", Make: true, Name: "w", TTL: time.Hour,
		})
		require.NoError(t, err)
		b.exec(`INSERT INTO session (id, name, namespace_id, queue_id, started_at, expires_at, may_own)
			SELECT gen_random_uuid(), 'w', $1, $2, now(), '-infinity', false FROM generate_series(1, $3)`,
			b.namespace, w.Queue, workers)
		d := definition("j", past)
		d.Target = job.Target{Kind: job.WorkerKind, Config: []byte(`{"handler":"h"}`)}
		j := b.create(d)
		b.exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
				queue_id, needs_sweep, handler, session_id, claimed_at)
			SELECT $1, 0, 1, $2, now() - n * interval '1 s', now(), 1, 1, 0, 0, 0, $3, false, 'h', id, now()
			FROM (SELECT id, row_number() OVER () + 1000 AS n FROM session
			      WHERE queue_id = $3 AND expires_at = '-infinity') s`, j.Partition, j.ID, w.Queue)
		return w.Queue
	}
	attacker := lease(many)
	b.namespace = uuid.New()
	victim := lease(1)
	live := func(queue int32) (n int) {
		t.Helper()
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM run WHERE queue_id = $1 AND state = 1`, queue).Scan(&n))
		return n
	}
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM run WHERE queue_id = $1 FOR UPDATE`, attacker)
	require.NoError(t, err)
	rescued := make(chan error, 1)
	go func() {
		_, _, err := b.store.RescueWorkers(t.Context(), 2)
		rescued <- err
	}()
	require.Eventually(t, func() bool { return live(victim) == 0 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, many, live(attacker), "others have locked its runs")
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-rescued, "it is retried")
	for live(attacker) > 0 {
		_, found, err := b.store.RescueWorkers(t.Context(), 1000)
		require.NoError(t, err)
		require.NotZero(t, found)
	}
}
