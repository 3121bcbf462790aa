package postgres_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestAdoptStaysInItsQueue: a worker that knows the session of a node, or of a worker of another queue, does not get
// its runs.
func TestAdoptStaysInItsQueue(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	attempts := b.claimAll(1) // by a node
	runs := []job.Lease{{Key: attempts[0].Key, Attempt: attempts[0].Number}}
	for _, queue := range []string{"other", "narrow"} {
		_, gone, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: b.namespace,
			Queue:     queue,
			Make:      true,
			Name:      "w",
			TTL:       time.Minute,
			Adopt:     b.session,
			Runs:      runs,
		})
		require.NoError(t, err)
		require.Len(t, gone, 1, queue)
		require.Equal(t, 1, b.count(`run WHERE state = 1 AND session_id = '`+b.session.String()+`'`))
	}
	// Nor how they ended.
	_, err := b.store.CancelRun(t.Context(), job.RunParams{Namespace: b.namespace, Key: attempts[0].Key, Actor: "ann"})
	require.NoError(t, err)
	_, gone, err := b.store.OpenSession(t.Context(), job.SessionParams{
		Namespace: b.namespace,
		Queue:     "other",
		Name:      "w",
		TTL:       time.Minute,
		Adopt:     b.session,
		Runs:      runs,
	})
	require.NoError(t, err)
	require.Equal(t, job.GoneLost, gone[0].Why)
}

// TestAdoptTellsNothingOfOthers: a worker that knows a session and a run of another queue, or of another namespace's
// queue with the same name, does not learn how the run ended. A worker of that queue does.
func TestAdoptTellsNothingOfOthers(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	run := b.claimAll(1)[0]
	lease := job.Lease{Key: run.Key, Attempt: run.Number}
	other := uuid.New()
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'other')`, other)
	open := func(namespace uuid.UUID, queue string, adopt uuid.UUID) (job.WorkerSession, []job.Gone) {
		w, gone, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: namespace,
			Queue:     queue,
			Make:      true,
			Name:      "w",
			TTL:       time.Minute,
			Adopt:     adopt,
			Runs:      []job.Lease{lease},
		})
		require.NoError(t, err)
		return w, gone
	}
	theirs, _ := open(b.namespace, "narrow", uuid.Nil)
	b.exec(`UPDATE run SET handler = 'h', session_id = $1 WHERE state = 1`, theirs.ID)
	done, err := b.store.CompletePulled(t.Context(), []job.Completion{
		{
			Key: run.Key, Attempt: run.Number, Session: theirs.ID, Namespace: b.namespace,
			Outcome: job.Outcome{Kind: job.Succeeded},
		},
	})
	require.NoError(t, err)
	require.Len(t, done, 1)
	require.Empty(t, done[0].Rejected)
	for namespace, queue := range map[uuid.UUID]string{b.namespace: "other", other: "narrow"} {
		_, gone := open(namespace, queue, theirs.ID)
		require.Equal(t, []job.Gone{{Lease: lease, Why: job.GoneLost}}, gone)
		require.Equal(
			t, 1, b.count(`session WHERE id = '`+theirs.ID.String()+`' AND expires_at > now()`), "and it lives on",
		)
	}
	_, gone := open(b.namespace, "narrow", theirs.ID)
	require.Equal(t, []job.Gone{{Lease: lease, Why: job.GoneReported}}, gone)
}

// TestAdoptLocksNothingOfOthers: an invented id takes no lock, for example that of another namespace's queue.
func TestAdoptLocksNothingOfOthers(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	theirs, _, err := b.store.OpenSession(
		t.Context(),
		job.SessionParams{Namespace: b.namespace, Queue: "narrow", Make: true, Name: "w", TTL: time.Minute},
	)
	require.NoError(t, err)
	lock, adopt := 0x62656c66_00000000|uint64(theirs.Queue), uuid.New()
	binary.BigEndian.PutUint64(adopt[8:], lock)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.Background())) }()
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, int64(lock))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err = b.store.OpenSession(ctx, job.SessionParams{
		Namespace: b.namespace,
		Queue:     "other",
		Make:      true,
		Name:      "w",
		TTL:       time.Minute,
		Adopt:     adopt,
	})
	require.NoError(t, err)
}

// TestAWorkersForgottenRunIsRescued: its session is alive, and no heartbeat names the run.
func TestAWorkersForgottenRunIsRescued(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.claimAll(2)
	rescued := func() int {
		// A new store searches all partitions at once. Later it does so once a minute.
		_, found, err := pgtest.NewStore(pgtest.AsServer(t, b.pool)).Rescue(t.Context(), allPartitions(), 10)
		require.NoError(t, err)
		return found
	}
	b.exec(`UPDATE run SET handler = 'h'`)
	require.Zero(t, rescued())
	b.exec(`UPDATE run SET claimed_at = now() - interval '1 h' WHERE ctid = (SELECT ctid FROM run LIMIT 1)`)
	require.Equal(t, 1, rescued())
}
