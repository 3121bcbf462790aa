package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestAHeartbeatStoresProgressInOneStatement: however many runs it names, so that a worker cannot keep a connection
// busy with many statements. All its statements are one round trip, because workers send very many heartbeats.
func TestAHeartbeatStoresProgressInOneStatement(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(100)
	b.pending(10)
	w := b.pulling()
	got, err := b.store.PullClaim(t.Context(), job.PullClaimParams{
		Namespace: w.Namespace, Queue: w.Queue, Feeds: pullFeeds(w.Queue), Limit: 100,
		Polls: []job.Poll{{Session: w.ID, Handlers: []string{"x"}, Max: 50}},
	})
	require.NoError(t, err)
	require.Len(t, got.Claimed, 50)
	var leases []job.Lease
	text := "half way"
	for i, c := range got.Claimed {
		l := job.Lease{Key: c.Key, Attempt: c.Number}
		if percent := int16(i); i > 0 {
			l.Percent = &percent
		}
		if i == 7 {
			l.Progress = &text
		}
		leases = append(leases, l)
	}
	beat := func(leases []job.Lease) int {
		return len(r.during(func() {
			_, gone, err := b.store.Heartbeat(t.Context(), w, time.Hour, leases)
			require.NoError(t, err)
			require.Empty(t, gone)
		}))
	}
	beat(nil)
	require.Equal(t, 1, r.trips)
	require.Equal(t, beat(leases[:2]), beat(leases))
	require.Equal(t, 1, r.trips)
	var n int
	for i, c := range got.Claimed[1:] {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM run
			WHERE job_id = $1 AND due_at = $2 AND percent = $3 AND coalesce(progress, '') = $4`,
			c.Key.Job, c.Key.DueAt, i+1, map[bool]string{true: text}[i+1 == 7]).Scan(&n))
		require.Equal(t, 1, n, "run %d", i+1)
	}
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM run WHERE percent IS NOT NULL`).Scan(&n))
	require.Equal(t, 49, n)
}

// TestAHeartbeatOfAnEndedSessionStoresNothing: the runs may be leased to it until a node takes them over.
func TestAHeartbeatOfAnEndedSessionStoresNothing(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.shared(10)
	b.pending(1)
	w := b.pulling()
	got, err := b.store.PullClaim(t.Context(), job.PullClaimParams{
		Namespace: w.Namespace, Queue: w.Queue, Feeds: pullFeeds(w.Queue), Limit: 100,
		Polls: []job.Poll{{Session: w.ID, Handlers: []string{"x"}, Max: 1}},
	})
	require.NoError(t, err)
	require.Len(t, got.Claimed, 1)
	beat := func(percent int16) error {
		l := job.Lease{Key: got.Claimed[0].Key, Attempt: got.Claimed[0].Number, Percent: &percent}
		_, _, err := b.store.Heartbeat(t.Context(), w, time.Hour, []job.Lease{l})
		return err
	}
	require.NoError(t, beat(10))
	require.NoError(t, b.store.EndSession(t.Context(), w))
	require.ErrorIs(t, beat(20), job.ErrSessionExpired)
	require.Equal(t, 1, b.count(`run WHERE percent = 10 AND state = 1`))
}

// TestInventedRunsAreNotSearchedInAllDays: only in those since the session started.
func TestInventedRunsAreNotSearchedInAllDays(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(10)
	b.pending(1)
	w := b.pulling()
	b.exec(`DO $$ DECLARE today timestamptz := date_trunc('day', now(), 'UTC'); BEGIN FOR n IN 3..32 LOOP
		EXECUTE format('CREATE TABLE run_history_old_%s PARTITION OF run_history FOR VALUES FROM (%L) TO (%L)',
			n, today - n * interval '1 day', today - (n - 1) * interval '1 day');
		END LOOP; END $$`)
	sent := r.during(func() {
		key := job.Key{Job: uuid.New(), DueAt: time.Unix(1, 0)}
		_, gone, err := b.store.Heartbeat(t.Context(), w, time.Hour, []job.Lease{{Key: key, Attempt: 1}})
		require.NoError(t, err)
		require.Equal(t, job.GoneLost, gone[0].Why)
	})
	fates := sent[len(sent)-1]
	require.Contains(t, fates.sql, "run_history")
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	plan := explainWith(b, tx, "fates", fates, "ANALYZE, FORMAT JSON")
	require.Equal(t, 0, plan.searched("run_history_old_"))
	require.Positive(t, plan.searched("run_history_"))
}

// searched counts the tables whose name has a prefix that a statement has searched.
func (n *node) searched(prefix string) (found int) {
	if strings.HasPrefix(n.Relation, prefix) && n.Loops > 0 {
		found++
	}
	for i := range n.Plans {
		found += n.Plans[i].searched(prefix)
	}
	return found
}

// TestAnAdoptionDoesNotWaitLongForALock: many of them for the same session would each keep a connection.
func TestAnAdoptionDoesNotWaitLongForALock(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	open := func(adopt uuid.UUID) (job.WorkerSession, error) {
		w, _, err := b.store.OpenSession(t.Context(), job.SessionParams{
			Namespace: b.namespace, Queue: "narrow", Make: true, Name: "w", TTL: time.Hour, Adopt: adopt,
		})
		return w, err
	}
	old, err := open(uuid.Nil)
	require.NoError(t, err)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	high, low := postgres.LockFamilyOf(old.ID)
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1::integer, $2::integer)`, high, low)
	require.NoError(t, err)
	_, err = open(old.ID)
	require.ErrorIs(t, err, job.ErrAdopting)
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = open(old.ID)
	require.NoError(t, err)
}
