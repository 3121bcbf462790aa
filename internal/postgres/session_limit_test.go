package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

const sessions = access.MaxSessions

func requireFull(t *testing.T, err error, used, limit int64) {
	t.Helper()
	var over *access.QuotaError
	require.ErrorAs(t, err, &over)
	require.Equal(t, access.QuotaError{Quota: access.CapSessions, Used: used, Limit: limit, Added: 1}, *over)
}

// TestSessionsOfANamespaceAreLimited: a namespace at its limit opens no more sessions, and can replace those that it
// has. Others are not affected.
func TestSessionsOfANamespaceAreLimited(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	other := uuid.New()
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'other'), ($2, 'mine')`, other, b.namespace)
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
		b.namespace, w.Queue, sessions-2)
	b.store = pgtest.NewStore(b.pool) // another node, which counts what others have opened
	last, err := open(b.namespace, uuid.Nil)
	require.NoError(t, err)
	_, err = open(b.namespace, uuid.Nil)
	requireFull(t, err, sessions, sessions)
	_, err = open(b.namespace, uuid.New())
	requireFull(t, err, sessions, sessions) // one that does not exist cannot be replaced
	_, err = open(other, uuid.Nil)
	require.NoError(t, err)
	last, err = open(b.namespace, last.ID)
	require.NoError(t, err, "a worker keeps its runs")
	require.NoError(t, b.store.EndSession(t.Context(), last))
	b.store = pgtest.NewStore(b.pool) // another node, which counts what others have ended
	_, err = open(b.namespace, uuid.Nil)
	require.NoError(t, err)
}

// TestEndedSessionsAreLimited: a worker that opens and ends sessions all the time leaves few of them behind, and they are
// forgotten many at once, so that those of other namespaces do not wait.
func TestEndedSessionsAreLimited(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'mine')`, b.namespace)
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
		b.namespace, w.Queue, 2*sessions-1)
	b.store = pgtest.NewStore(b.pool) // another node, which counts what others have opened
	_, err = open()
	require.ErrorIs(t, err, job.ErrTooManySessions)
	const left = `SELECT count(*) FROM session WHERE queue_id IS NOT NULL`
	var before, after int
	require.NoError(t, b.pool.QueryRow(t.Context(), left).Scan(&before))
	_, _, err = b.store.RescueWorkers(t.Context(), 1000)
	require.NoError(t, err)
	require.NoError(t, b.pool.QueryRow(t.Context(), left).Scan(&after))
	require.GreaterOrEqual(t, before-after, 5000)
	require.Eventually(t, func() bool {
		_, err = open()
		return err == nil
	}, clocktest.Allow(10*time.Second), 100*time.Millisecond, "the refusal is remembered for a second")
}

// TestSessionsAreNotCountedEachTime: a node counts the sessions of a namespace once a second, so that a namespace that
// opens thousands does not slow down the others.
func TestSessionsAreNotCountedEachTime(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'mine')`, b.namespace)
	open := func() (job.WorkerSession, error) {
		w, _, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: b.namespace, Queue: "work", Make: true, Name: "w", TTL: time.Minute,
		})
		return w, err
	}
	begun := clock.Elapsed()
	first, err := open()
	require.NoError(t, err)
	b.fillSessions(first.Queue, sessions)
	_, err = open()
	if clock.Elapsed()-begun < time.Second {
		require.NoError(t, err, "it has counted them before")
	}
	require.Eventually(t, func() bool {
		_, err = open()
		return err != nil
	}, clocktest.Allow(10*time.Second), 100*time.Millisecond)
	var over *access.QuotaError
	require.ErrorAs(t, err, &over)
	b.exec(`DELETE FROM session WHERE name = 'many'`)
	require.Eventually(t, func() bool {
		_, err = open()
		return err == nil
	}, clocktest.Allow(10*time.Second), 100*time.Millisecond, "the refusal is remembered for a second")
}

func (b *limits) fillSessions(queue int32, n int) {
	b.exec(`INSERT INTO session (id, name, namespace_id, queue_id, started_at, expires_at, may_own)
		SELECT gen_random_uuid(), 'many', $1, $2, now(), now() + '1 minute', false FROM generate_series(1, $3)`,
		b.namespace, queue, n)
}

// TestReplacingSessionsAtTheLimit: at the limit, a worker replaces its live session, and no other worker gets a session by
// naming one that does not exist or has ended.
func TestReplacingSessionsAtTheLimit(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'mine')`, b.namespace)
	open := func(adopt uuid.UUID) (job.WorkerSession, error) {
		b.store = pgtest.NewStore(b.pool) // another node, which counts
		w, _, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: b.namespace, Queue: "work", Make: true, Name: "w", TTL: time.Minute, Adopt: adopt,
		})
		return w, err
	}
	first, err := open(uuid.Nil)
	require.NoError(t, err)
	b.fillSessions(first.Queue, sessions-2)
	second, err := open(uuid.Nil)
	require.NoError(t, err)
	full := func(adopt uuid.UUID) {
		t.Helper()
		_, err := open(adopt)
		requireFull(t, err, sessions, sessions)
	}
	full(uuid.New())
	third, err := open(second.ID)
	require.NoError(t, err)
	full(uuid.Nil)
	require.NoError(t, b.store.EndSession(t.Context(), first))
	_, err = open(uuid.Nil)
	require.NoError(t, err)
	full(first.ID)
	b.exec(`DELETE FROM session WHERE expires_at = '-infinity'`) // as nodes do
	full(first.ID)
	_, err = open(third.ID)
	require.NoError(t, err)
}
