package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// failOver makes the database look like the primary of another timeline, later or earlier by some.
func (b *jobs) failOver(by int) {
	b.t.Helper()
	before := "before_" + uuid.New().String()
	b.exec(fmt.Sprintf(`ALTER FUNCTION belfry_timeline RENAME TO %q`, before))
	b.exec(fmt.Sprintf(`CREATE FUNCTION belfry_timeline() RETURNS bigint LANGUAGE sql AS 'SELECT %q() + %d'`, before, by))
}

// A failover is recorded once. It lost something if a node misses a renewal of its own that was acknowledged, or its
// session. Otherwise it may have, unless commits on the old primary waited for a standby, as far as nodes know that.
func TestFailoversAreListed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose    string // on the new primary
		restart bool   // of the node
		want    job.Writes
	}{
		"asynchronous":    {want: job.WritesUnknown},
		"synchronous":     {restart: true, want: job.WritesKept}, // the server of the test is not, and a running node knows that
		"a renewal lost":  {lose: `UPDATE session SET renewed_at = renewed_at - interval '2 s'`, want: job.WritesLost},
		"a session lost":  {lose: `DELETE FROM session`, want: job.WritesLost},
		"nothing to miss": {lose: `DELETE FROM session`, restart: true, want: job.WritesKept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			session := uuid.New()
			_, err := b.store.Register(t.Context(), session, "node", time.Hour)
			require.NoError(t, err)
			b.exec(`UPDATE cluster SET synchronous = true`)
			b.failOver(1)
			if c.lose != "" {
				b.exec(c.lose)
			}
			if c.restart {
				b.store = pgtest.NewStore(b.pool)
			}
			for range 2 {
				if _, err = b.store.Renew(t.Context(), session, time.Hour, true); err != nil {
					require.ErrorIs(t, err, job.ErrSessionExpired)
					session = uuid.New()
					_, err = b.store.Register(t.Context(), session, "node", time.Hour)
					require.NoError(t, err)
				}
			}
			var f job.Failover
			require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT lost, synchronous FROM failover`).
				Scan(&f.Lost, &f.Synchronous))
			require.Equal(t, c.want, f.Writes())
			require.Equal(t, 1, b.count(`failover`))
		})
	}
}

// A server that pg_upgrade or a dump has set up begins at timeline 1 again, with the failovers of its predecessor. Its
// own failover to a timeline that is listed counts as well.
func TestAFailoverToATimelineThatIsListed(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	renew := func() {
		t.Helper()
		_, err := b.store.Renew(t.Context(), b.session, time.Hour, true)
		require.NoError(t, err)
	}
	b.failOver(1)
	renew()
	b.exec(`UPDATE failover SET noticed_at = '2020-01-01', received_until = '2020-01-01', lost = true`)
	b.failOver(-1)
	b.store = pgtest.NewStore(b.pool) // the upgrade stops all nodes
	renew()
	start := b.now()
	var got []job.Failover
	b.store.OnFailover = func(f job.Failover) { got = append(got, f) }
	b.failOver(1)
	renew()
	require.Len(t, got, 1)
	require.False(t, got[0].Noticed.Before(start), "noticed at %s", got[0].Noticed)
	require.Equal(t, job.WritesUnknown, got[0].Writes())
	require.NotEqual(t, 2020, got[0].Received.Year())
	require.Equal(t, 2, b.count(`failover`))
}

// A pooler may lead a node to a primary of the past. The node does not count that as a renewal, nor as a failover.
func TestRenewalsRefuseAPrimaryOfThePast(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.failOver(1)
	_, err := b.store.Renew(t.Context(), b.session, time.Hour, true)
	require.NoError(t, err)
	b.failOver(-1)
	_, err = b.store.Renew(t.Context(), b.session, time.Hour, true)
	require.ErrorContains(t, err, "timeline")
	require.Equal(t, 1, b.count(`failover`))
}

// A failover that may have lost the reports of a worker ends the runs that the worker has forgotten, and no others.
func TestWorkersAdoptTheirRunsAfterAFailover(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	attempts := b.claimAll(2)
	o := job.SessionParams{Namespace: b.namespace, Queue: "narrow", Name: "w", TTL: time.Minute}
	w, _, err := b.store.OpenSession(t.Context(), o)
	require.NoError(t, err)
	b.exec(`UPDATE run SET handler = 'h', session_id = $1`, w.ID)
	known := []job.Lease{{Key: attempts[0].Key, Attempt: attempts[0].Number}}
	_, gone, err := b.store.Heartbeat(t.Context(), w, time.Minute, known)
	require.NoError(t, err)
	require.Empty(t, gone)

	b.failOver(1)
	_, err = b.store.Renew(t.Context(), b.session, time.Hour, true)
	require.NoError(t, err)
	_, _, err = b.store.Heartbeat(t.Context(), w, time.Minute, known)
	require.ErrorIs(t, err, job.ErrSessionExpired)
	o.Adopt, o.Runs = w.ID, known
	w, gone, err = b.store.OpenSession(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, gone)
	_, found, err := b.store.RescueWorkers(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, found)
	_, gone, err = b.store.Heartbeat(t.Context(), w, time.Minute, known)
	require.NoError(t, err)
	require.Empty(t, gone)
}

// Leased finds the attempts that a session of a node has.
func TestLeasedAttemptsAreFound(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	attempts := b.claimAll(2)
	b.exec(`UPDATE run SET session_id = gen_random_uuid() WHERE job_id = $1`, attempts[1].Key.Job)
	lost, err := b.store.Leased(t.Context(), b.session, 10)
	require.NoError(t, err)
	require.Len(t, lost, 1)
	require.Equal(t, attempts[0].Key, lost[0].Key)
	retries, _, err := b.store.CompleteDecided(t.Context(), lost)
	require.NoError(t, err)
	require.Len(t, retries, 1)
}
