package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestSessionsOfANamespaceAreLimited: a namespace at its limit opens no more sessions, and can replace those that it
// has. Others are not affected.
func TestSessionsOfANamespaceAreLimited(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	other := uuid.New()
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'other')`, other)
	open := func(namespace, adopt uuid.UUID) (job.WorkerSession, error) {
		w, _, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: namespace, Queue: "work", Make: true, Name: "w", TTL: time.Minute, Adopt: adopt,
		})
		return w, err
	}
	w, err := open(b.namespace, uuid.Nil)
	require.NoError(t, err)
	b.exec(`INSERT INTO session (id, name, namespace_id, queue_id, started_at, expires_at, may_own)
		SELECT gen_random_uuid(), 'w', $1, $2, now(), now() + '1 minute', false FROM generate_series(1, $3)`,
		b.namespace, w.Queue, job.MaxSessions-2)
	last, err := open(b.namespace, uuid.Nil)
	require.NoError(t, err)
	_, err = open(b.namespace, uuid.Nil)
	require.ErrorIs(t, err, job.ErrTooManySessions)
	_, err = open(b.namespace, uuid.New())
	require.ErrorIs(t, err, job.ErrTooManySessions, "one that does not exist cannot be replaced")
	_, err = open(other, uuid.Nil)
	require.NoError(t, err)
	last, err = open(b.namespace, last.ID)
	require.NoError(t, err, "a worker keeps its runs")
	require.NoError(t, b.store.EndSession(t.Context(), last))
	_, err = open(b.namespace, uuid.Nil)
	require.NoError(t, err)
}

// TestEndedSessionsAreLimited: a worker that opens and ends sessions all the time leaves few of them behind, and they are
// forgotten many at once, so that those of other namespaces do not wait.
func TestEndedSessionsAreLimited(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	open := func() (job.WorkerSession, error) {
		w, _, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: b.namespace, Queue: "work", Make: true, Name: "w", TTL: time.Minute,
		})
		return w, err
	}
	w, err := open()
	require.NoError(t, err)
	b.exec(`INSERT INTO session (id, name, namespace_id, queue_id, started_at, expires_at, may_own)
		SELECT gen_random_uuid(), 'w', $1, $2, now(), '-infinity', false FROM generate_series(1, $3)`,
		b.namespace, w.Queue, 2*job.MaxSessions-1)
	_, err = open()
	require.ErrorIs(t, err, job.ErrTooManySessions)
	const left = `SELECT count(*) FROM session WHERE queue_id IS NOT NULL`
	var before, after int
	require.NoError(t, b.pool.QueryRow(t.Context(), left).Scan(&before))
	_, _, err = b.store.RescueWorkers(t.Context(), 1000)
	require.NoError(t, err)
	require.NoError(t, b.pool.QueryRow(t.Context(), left).Scan(&after))
	require.GreaterOrEqual(t, before-after, 5000)
	_, err = open()
	require.NoError(t, err)
}
