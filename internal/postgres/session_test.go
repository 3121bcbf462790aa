package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// renew renews a session for an hour.
func (b *fenceBundle) renew(t *testing.T, session uuid.UUID) error {
	t.Helper()
	_, err := b.store.Renew(t.Context(), session, time.Hour, true)
	return err
}

// rescued returns how many runs of nodes Rescue finds.
func (b *fenceBundle) rescued(t *testing.T) int {
	t.Helper()
	_, found, err := b.store.Rescue(t.Context(), []int16{b.key.Partition}, 10)
	require.NoError(t, err)
	return found
}

func (b *fenceBundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// up lets nodes have been renewing for some time.
func (b *fenceBundle) up(t *testing.T, time string) {
	t.Helper()
	b.exec(t, `UPDATE cluster SET alive = alive + $1::interval`, time)
}

// succeed reports success of an attempt and returns whether the report was accepted.
func (b *fenceBundle) succeed(t *testing.T, a job.Attempt) bool {
	t.Helper()
	fenced, err := b.store.CompleteSucceeded(t.Context(), []job.Completion{{
		Key: a.Key, Attempt: a.Number, Session: a.Session, Outcome: job.Outcome{Kind: job.Succeeded},
	}})
	require.NoError(t, err)
	return fenced == 0
}

// setupOutage is a run that a session works on, another session, and a database that was down for so long that both
// have expired.
func setupOutage(t *testing.T) (b *fenceBundle, attempt job.Attempt, other uuid.UUID) {
	t.Helper()
	b = setupFence(t, past)
	claimed := b.claim(t, b.session, time.Second)
	require.Len(t, claimed, 1)
	other = uuid.New()
	_, err := b.store.Register(t.Context(), other, "other", time.Hour)
	require.NoError(t, err)
	b.exec(t, pgtest.Outage)
	return b, claimed[0], other
}

// TestASessionSurvivesAnOutage in which no node could renew: its run is not rescued, and its report is accepted.
func TestASessionSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	b, attempt, other := setupOutage(t)
	require.Zero(t, b.rescued(t), "before anyone has renewed")
	require.NoError(t, b.renew(t, other))
	require.Zero(t, b.rescued(t), "others have time to come back")
	require.NoError(t, b.renew(t, b.session))
	require.Zero(t, b.rescued(t))
	b.up(t, "1 day")
	require.Zero(t, b.rescued(t), "it is alive")
	require.True(t, b.succeed(t, attempt))
}

// TestASessionThatDoesNotComeBackIsEnded, and then for ever.
func TestASessionThatDoesNotComeBackIsEnded(t *testing.T) {
	t.Parallel()
	b, attempt, other := setupOutage(t)
	require.NoError(t, b.renew(t, other))
	b.up(t, "119 min")
	require.Zero(t, b.rescued(t), "less than twice the TTL")
	b.up(t, "1 min")
	require.Equal(t, 1, b.rescued(t))
	require.ErrorIs(t, b.renew(t, b.session), job.ErrSessionExpired)
	require.False(t, b.succeed(t, attempt))
	require.NoError(t, b.renew(t, other))
}

// alive returns for how long nodes have been renewing.
func (b *fenceBundle) alive(t *testing.T) (d time.Duration) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT alive FROM cluster`).Scan(&d))
	return d
}

// TestAnOutageDoesNotCount: a renewal adds the time since the last one, but a second at most. A clock that went back
// adds nothing, and a registration counts like a renewal.
func TestAnOutageDoesNotCount(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	for before, want := range map[string]time.Duration{
		"1 s": time.Second, "2.1 s": time.Second, "1 year": time.Second, "-1 min": 0, "-1 day": 0,
	} {
		b.exec(t, `UPDATE cluster SET seen_at = now() - $1::interval`, before)
		alive := b.alive(t)
		require.NoError(t, b.renew(t, b.session))
		require.Equal(t, want, b.alive(t)-alive, before)
	}
	b.exec(t, `UPDATE cluster SET seen_at = now() - interval '1 h'`)
	alive := b.alive(t)
	_, err := b.store.Register(t.Context(), uuid.New(), "other", time.Hour)
	require.NoError(t, err)
	require.Equal(t, time.Second, b.alive(t)-alive)
}

// TestStallsOnlyDelayTheEndOfASession: each renewal of the other node is late, as on an overloaded database.
func TestStallsOnlyDelayTheEndOfASession(t *testing.T) {
	t.Parallel()
	b, _, other := setupOutage(t)
	b.exec(t, `UPDATE session SET renewed_at = now() - interval '30 s', expires_at = now() - interval '25 s',
		alive = belfry_alive() WHERE id = $1`, b.session)
	for i := range 10 {
		require.Zero(t, b.rescued(t), "after %d s", i)
		b.exec(t, `UPDATE cluster SET seen_at = now() - interval '2.5 s'`)
		require.NoError(t, b.renew(t, other))
	}
	require.Equal(t, 1, b.rescued(t))
}

// TestRenewOrEnd: of a renewal and the end of a session at the same time, the one that locks the row first counts.
func TestRenewOrEnd(t *testing.T) {
	t.Parallel()
	b, attempt, other := setupOutage(t)
	require.NoError(t, b.renew(t, other))
	b.up(t, "1 day")
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `UPDATE session SET renewed_at = now(), expires_at = now() + interval '1 h'
		WHERE id = $1`, b.session)
	require.NoError(t, err)
	require.Zero(t, b.rescued(t), "it is being renewed")
	require.NoError(t, tx.Commit(t.Context()))
	require.Zero(t, b.rescued(t))

	tx, err = b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE session SET expires_at = '-infinity' WHERE id = $1`, b.session)
	require.NoError(t, err)
	renewed := make(chan error, 1)
	go func() {
		_, err := b.store.Renew(t.Context(), b.session, time.Hour, true)
		renewed <- err
	}()
	require.Eventually(t, func() bool { return waitsForALock(t, b.pool) }, time.Minute, often)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-renewed, job.ErrSessionExpired)
	require.Equal(t, 1, b.rescued(t))
	require.False(t, b.succeed(t, attempt))
}

// TestAClaimOfAnExpiredSessionIsResolved: the session may be renewed, and then no other node delivers its runs.
func TestAClaimOfAnExpiredSessionIsResolved(t *testing.T) {
	t.Parallel()
	b, attempt, _ := setupOutage(t)
	got, err := b.store.ResolveClaim(t.Context(), b.session, []job.Key{b.key})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, attempt.Number, got[0].Number)
	require.NoError(t, b.store.Unregister(t.Context(), b.session))
	got, err = b.store.ResolveClaim(t.Context(), b.session, []job.Key{b.key})
	require.NoError(t, err)
	require.Empty(t, got, "it is rescued")
}

// TestTakeOrRenew: no partition is taken from a session that is being revived, which would have two owners then.
func TestTakeOrRenew(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	a, c := b.session(), b.session()
	owned := b.take(a, b.ownership())
	b.expire(a)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `UPDATE session SET expires_at = now() + interval '1 h' WHERE id = $1`, a)
	require.NoError(t, err)
	taken := make(chan []job.Ownership, 1)
	go func() {
		got, err := b.store.Take(t.Context(), c, owned)
		if err != nil {
			t.Error(err)
		}
		taken <- got
	}()
	require.Eventually(t, func() bool { return len(taken) > 0 || waitsForALock(t, b.pool) }, time.Minute, often)
	require.NoError(t, tx.Commit(t.Context()))
	require.Empty(t, <-taken)
	require.Equal(t, a, b.ownership().Owner)
}

const often = 5 * time.Millisecond

// waitsForALock returns whether a transaction waits for another one.
func waitsForALock(t *testing.T, pool *pgxpool.Pool) (waiting bool) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting))
	return waiting
}
