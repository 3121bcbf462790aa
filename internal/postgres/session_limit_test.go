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
	"github.com/belfry-dev/belfry/internal/postgres"
)

// sessions is the quota of a namespace whose operator sets no other.
const sessions = 10_000

func requireFull(t *testing.T, err error, used, limit int64) {
	t.Helper()
	var over *access.QuotaError
	require.ErrorAs(t, err, &over)
	require.Equal(t, access.QuotaError{Quota: access.QuotaSessions, Used: used, Limit: limit, Added: 1}, *over)
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
	_, err = open(b.namespace, uuid.Nil)
	require.NoError(t, err)

	set := func(namespace string, limit *int64) {
		_, err := b.store.SetQuotas(t.Context(), namespace, access.QuotaParams{access.QuotaSessions: limit})
		require.NoError(t, err)
		b.store = pgtest.NewStore(b.pool) // another node, which counts what others have opened
	}
	set("mine", nil)
	for range 2 {
		_, err = open(b.namespace, uuid.Nil)
		require.NoError(t, err)
	}
	one, none := int64(1), int64(0)
	set("other", &one)
	for range 2 {
		_, err = open(other, uuid.Nil)
		requireFull(t, err, 1, 1)
	}
	set("other", &none)
	_, err = open(other, uuid.Nil)
	require.ErrorContains(t, err, "of its quota of 0 sessions of workers")
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

// TestSessionsAreNotCountedEachTime: a node counts the sessions of a namespace once for many that it opens or refuses, so
// that a namespace that opens thousands does not slow down the others.
func TestSessionsAreNotCountedEachTime(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'mine')`, b.namespace)
	open := func(s *pgtest.Store) (job.WorkerSession, error) {
		w, _, err := s.OpenSession(t.Context(), job.SessionParams{
			Namespace: b.namespace, Queue: "work", Make: true, Name: "w", TTL: time.Minute,
		})
		return w, err
	}
	first, err := open(pgtest.NewStore(b.pool))
	require.NoError(t, err)
	change := func(sql string, args ...any) (commit func()) {
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
		return func() { require.NoError(t, tx.Commit(t.Context())) }
	}
	commit := change(`INSERT INTO session (id, name, namespace_id, queue_id, started_at, expires_at, may_own)
		SELECT gen_random_uuid(), 'many', $1, $2, now(), now() + '1 minute', false FROM generate_series(1, $3)`,
		b.namespace, first.Queue, sessions)
	begun := clock.Elapsed()
	_, err = open(b.store)
	require.NoError(t, err)
	commit()
	_, err = open(b.store)
	if clock.Elapsed()-begun < 5*time.Second {
		require.NoError(t, err, "it has counted them before")
	}
	used := int64(sessions + 2)
	if err == nil {
		used++
	}

	other := pgtest.NewStore(b.pool)
	commit = change(`DELETE FROM session WHERE name = 'many'`)
	begun = clock.Elapsed()
	_, err = open(other)
	requireFull(t, err, used, sessions)
	commit()
	_, err = open(other)
	if clock.Elapsed()-begun < time.Second {
		requireFull(t, err, used, sessions) // it has counted them before
	}
	require.Eventually(t, func() bool {
		_, err = open(other)
		return err == nil
	}, clocktest.Allow(10*time.Second), 100*time.Millisecond, "the refusal is remembered for a second")
}

// TestReplacingSessionsAtTheLimit: at the limit, a worker replaces its live session, and no other worker gets a session by
// naming one that does not exist or has ended. A session that is ended twice
// allows one new session.
func TestReplacingSessionsAtTheLimit(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.exec(`INSERT INTO namespace (id, name, max_sessions) VALUES ($1, 'mine', 2)`, b.namespace)
	open := func(adopt uuid.UUID) (job.WorkerSession, error) {
		w, _, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: b.namespace, Queue: "work", Make: true, Name: "w", TTL: time.Minute, Adopt: adopt,
		})
		return w, err
	}
	first, err := open(uuid.Nil)
	require.NoError(t, err)
	second, err := open(uuid.Nil)
	require.NoError(t, err)
	full := func(adopt uuid.UUID) {
		t.Helper()
		_, err := open(adopt)
		requireFull(t, err, 2, 2)
	}
	full(uuid.New())
	third, err := open(second.ID)
	require.NoError(t, err)
	full(uuid.Nil)
	require.NoError(t, b.store.EndSession(t.Context(), first))
	require.NoError(t, b.store.EndSession(t.Context(), first))
	_, err = open(uuid.Nil)
	require.NoError(t, err)
	full(first.ID)
	b.exec(`DELETE FROM session WHERE expires_at = '-infinity'`) // as nodes do
	b.store = pgtest.NewStore(b.pool)                            // another node, which counts
	full(first.ID)
	_, err = open(third.ID)
	require.NoError(t, err)
}

// TestSessionsThatAreNotOpened: those of a queue that does not exist need none of the quota.
func TestSessionsThatAreNotOpened(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.exec(`INSERT INTO namespace (id, name, max_sessions) VALUES ($1, 'mine', 1)`, b.namespace)
	open := func(queue string, create bool) error {
		_, _, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: b.namespace, Queue: queue, Make: create, Name: "w", TTL: time.Minute,
		})
		return err
	}
	for range 3 {
		require.ErrorIs(t, open("missing", false), postgres.ErrNotFound)
	}
	require.NoError(t, open("work", true))
}
