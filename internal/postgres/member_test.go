package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/store"
)

// session registers a session that outlives the test unless the test expires it.
func (b *jobs) session() uuid.UUID {
	b.t.Helper()
	id := uuid.New()
	_, err := b.store.Register(b.t.Context(), id, "test", time.Hour)
	require.NoError(b.t, err)
	return id
}

// expire lets a session expire now. Transactions that began earlier see it alive.
func (b *jobs) expire(session uuid.UUID) {
	b.t.Helper()
	b.exec(pgtest.ExpireSession, session)
}

// ownership returns the owner of the test's partition.
func (b *jobs) ownership() job.Ownership {
	b.t.Helper()
	s, err := b.store.Survey(b.t.Context())
	require.NoError(b.t, err)
	require.Len(b.t, s.Ownerships, 256)
	return s.Ownerships[partition]
}

func (b *jobs) take(session uuid.UUID, from ...job.Ownership) []job.Ownership {
	b.t.Helper()
	taken, err := b.store.Take(b.t.Context(), session, from)
	require.NoError(b.t, err)
	return taken
}

func TestTakeIsCompareAndSet(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	a, c := b.session(), b.session()
	free := b.ownership()
	require.Equal(t, job.Ownership{Partition: partition}, free)
	owned := job.Ownership{Partition: partition, Owner: a, Epoch: 1}
	require.Equal(t, []job.Ownership{owned}, b.take(a, free))
	require.Equal(t, owned, b.ownership())

	require.Empty(t, b.take(c, free), "a stale owner and epoch")
	require.Empty(t, b.take(c, owned), "a live owner")
	require.Empty(t, b.take(a, owned), "not even by itself")
	b.expire(a)
	stale := owned
	stale.Epoch = 0
	require.Empty(t, b.take(c, stale), "a stale epoch")
	require.Empty(t, b.take(a, owned), "an expired session takes nothing")
	require.Equal(t, owned, b.ownership())
	require.Equal(t, []job.Ownership{{Partition: partition, Owner: c, Epoch: 2}}, b.take(c, owned))
	require.Empty(t, b.take(uuid.New(), b.ownership()), "who never registered takes nothing")
}

func TestRelease(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	a, c := b.session(), b.session()
	owned := b.take(a, b.ownership())
	given := []job.Ownership{owned[0]}
	require.NoError(t, b.store.Release(t.Context(), c, given))
	require.Equal(t, owned, given, "the caller's list stays as it is")
	require.Equal(t, owned[0], b.ownership(), "another cannot release")
	require.NoError(t, b.store.Release(t.Context(), a, []job.Ownership{{Partition: partition, Owner: a, Epoch: 7}}))
	require.Equal(t, owned[0], b.ownership(), "a stale epoch")
	require.NoError(t, b.store.Release(t.Context(), a, owned))
	require.Equal(t, job.Ownership{Partition: partition, Epoch: 2}, b.ownership())
	require.NoError(t, b.store.Release(t.Context(), a, nil))
	require.Len(t, b.take(c, b.ownership()), 1)
}

// Many sessions take everything at the same time: each partition goes to one session, and none waits forever.
func TestTakeByManyAtOnce(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	dead := []uuid.UUID{b.session(), b.session(), b.session()}
	s, err := b.store.Survey(t.Context())
	require.NoError(t, err)
	for i, id := range dead {
		b.take(id, s.Ownerships[i*64:(i+1)*64]...) // the last 64 have no owner
	}
	for _, id := range dead {
		b.expire(id)
	}
	s, err = b.store.Survey(t.Context())
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	owners := map[int16]uuid.UUID{}
	for range 6 {
		me := b.session()
		wg.Go(func() {
			taken, err := b.store.Take(t.Context(), me, s.Ownerships)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, o := range taken {
				if owners[o.Partition] != uuid.Nil {
					t.Errorf("partition %d was taken twice", o.Partition)
				}
				owners[o.Partition] = me
			}
		})
	}
	wg.Wait()
	require.Len(t, owners, 256)
}

func TestRenew(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	id := b.session()
	before := b.now()
	now, err := b.store.Renew(t.Context(), id, time.Minute, true)
	require.NoError(t, err)
	s, err := b.store.Survey(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Sessions, 1)
	require.Equal(t, id, s.Sessions[0].ID)
	require.True(t, s.Sessions[0].Owns)
	renewed := s.Sessions[0].ExpiresAt.Add(-time.Minute)
	require.True(t, renewed.After(before) && renewed.Before(now.Now))
	require.True(t, s.Now.After(now.Now))

	// One that drains lives and owns what it has, but is given nothing more.
	owned := b.take(id, b.ownership())
	_, err = b.store.Renew(t.Context(), id, time.Minute, false)
	require.NoError(t, err)
	s, err = b.store.Survey(t.Context())
	require.NoError(t, err)
	require.False(t, s.Sessions[0].Owns)
	require.Empty(t, b.take(id, s.Ownerships[0]))
	require.Empty(t, b.take(b.session(), owned...), "it is alive")

	b.expire(id)
	_, err = b.store.Renew(t.Context(), id, time.Minute, true)
	require.NoError(t, err, "nobody has ended it")
	require.NoError(t, b.store.Unregister(t.Context(), id))
	_, err = b.store.Renew(t.Context(), id, time.Minute, true)
	require.ErrorIs(t, err, job.ErrSessionExpired)
	require.ErrorIs(t, err, job.ErrSessionExpired)
	_, err = b.store.Renew(t.Context(), uuid.New(), time.Minute, true)
	require.ErrorIs(t, err, job.ErrSessionExpired)
	_, err = b.store.Register(t.Context(), id, "test", time.Minute)
	require.Error(t, err, "an id is used once")
}

func TestUnregisterFrees(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	a, c := b.session(), b.session()
	owned := b.take(a, b.ownership())
	require.NoError(t, b.store.Unregister(t.Context(), a))
	require.NoError(t, b.store.Unregister(t.Context(), a), "again")
	require.Len(t, b.take(c, owned...), 1)

	// The reply to a registration did not come, and its request arrives after all.
	late := uuid.New()
	require.NoError(t, b.store.Unregister(t.Context(), late))
	_, err := b.store.Register(t.Context(), late, "test", time.Hour)
	require.Error(t, err)
}

func TestRegisterRemovesOldSessions(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	b.exec(`INSERT INTO session (id, name, started_at, renewed_at, expires_at)
		SELECT gen_random_uuid(), 'old', now() - interval '1 day', now() - interval '61 min', '-infinity'
		FROM generate_series(1, 150)`)
	b.exec(`INSERT INTO session (id, name, started_at, renewed_at, expires_at) VALUES
		(gen_random_uuid(), 'recent', now() - interval '1 day', now() - interval '59 min', '-infinity'),
		(gen_random_uuid(), 'may revive', now() - interval '1 day', now() - interval '1 day', now() - interval '23 h')`)
	rows := func() (n int) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM session`).Scan(&n))
		return n
	}
	b.session()
	require.Equal(t, 53, rows(), "a hundred at a time")
	b.session()
	require.Equal(t, 4, rows(), "the recent one is kept, and the one that has not ended")
}

// dueRun creates a run that can be claimed now.
func (b *jobs) dueRun() []job.Key {
	b.t.Helper()
	j := b.create(definition("due", everyHour))
	planned := b.plan(2 * time.Hour)
	require.NotEmpty(b.t, planned.Runs)
	require.Equal(b.t, j.ID, planned.Runs[0].Job)
	return []job.Key{planned.Runs[0].Key}
}

const farAhead = 10 * time.Hour // a lead that makes any run of these tests due

func TestClaimAfterLosingOwnershipClaimsNothing(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	keys := b.dueRun()
	a, c := b.session(), b.session()
	claim := func(session uuid.UUID) []job.Attempt {
		claimed, err := b.store.Claim(t.Context(), session, keys, farAhead)
		require.NoError(t, err)
		return claimed
	}
	require.Empty(t, claim(a), "nobody owns the partition")
	owned := b.take(a, b.ownership())
	require.Empty(t, claim(c), "another owns it")
	require.NoError(t, b.store.Release(t.Context(), a, owned))
	require.Empty(t, claim(a), "released")
	b.take(c, b.ownership())
	require.Empty(t, claim(a), "taken")
	b.expire(c)
	require.Empty(t, claim(c), "the owner has expired, though nobody took it")
	b.take(a, b.ownership())
	require.Len(t, claim(a), 1)
}

// A claim that is under way when its session expires ends before another session takes the partition. Otherwise two
// owners could both believe that no run of a job is live.
func TestTakeWaitsForAClaimUnderWay(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	keys := b.dueRun()
	a, c := b.session(), b.session()
	owned := b.take(a, b.ownership())
	waiting := func(want int) func() bool {
		return func() bool {
			var n int
			err := b.pool.QueryRow(t.Context(), `
				SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
				WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted`).Scan(&n)
			return err == nil && n == want
		}
	}

	// A trigger stops the claim in its middle, until the test lets it go on.
	b.exec(`
		CREATE FUNCTION wait_for_lock() RETURNS trigger LANGUAGE plpgsql
		AS 'BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END'`)
	b.exec(`CREATE TRIGGER wait_for_lock BEFORE UPDATE ON run FOR EACH ROW EXECUTE FUNCTION wait_for_lock()`)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(42)`)
	require.NoError(t, err)
	order := make(chan string, 2)
	wg.Go(func() {
		claimed, err := b.store.Claim(t.Context(), a, keys, farAhead)
		order <- "claim"
		if err != nil || len(claimed) != 1 {
			t.Errorf("claimed %d: %v", len(claimed), err)
		}
	})
	require.Eventually(t, waiting(1), time.Minute, 5*time.Millisecond)
	b.expire(a)
	wg.Go(func() {
		taken, err := b.store.Take(t.Context(), c, owned)
		order <- "take"
		if err != nil || len(taken) != 1 {
			t.Errorf("took %d: %v", len(taken), err)
		}
	})
	require.Eventually(t, waiting(2), time.Minute, 5*time.Millisecond, "the taker waits")
	require.Equal(t, owned[0], b.ownership())
	require.Empty(t, order)

	require.NoError(t, tx.Rollback(t.Context()))
	wg.Wait()
	require.Equal(t, c, b.ownership().Owner)
	var session uuid.UUID
	require.NoError(
		t,
		b.pool.QueryRow(t.Context(), `SELECT session_id FROM run WHERE job_id = $1 AND state = 1`, keys[0].Job).
			Scan(&session),
	)
	require.Equal(t, a, session, "the claim was over before")
}

// A plan that commits after a takeover would write runs that the new owner does not know: it has loaded its partitions
// already.
func TestPlanAfterLosingOwnershipPlansNothing(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	b.create(definition("due", everyHour))
	a, c := b.session(), b.session()
	plan := func(session uuid.UUID) (int, error) {
		planned, err := b.store.Plan(t.Context(), job.PlanParams{
			Session: session, Partitions: []int16{partition}, LookAhead: 2 * time.Hour, Cursors: 10,
		})
		return len(planned.Runs), err
	}
	owned := b.take(a, b.ownership())
	require.NoError(t, b.store.Release(t.Context(), a, owned))
	b.take(c, b.ownership())
	n, err := plan(a)
	require.NoError(t, err)
	require.Zero(t, n, "another owns the partition")

	// Take waits for plans under way: both need the lock of the session.
	tx := b.begin()
	_, err = tx.Exec(t.Context(),
		`SELECT pg_advisory_xact_lock(('x' || right(replace($1::uuid::text, '-', ''), 16))::bit(64)::bigint)`, c)
	require.NoError(t, err)
	_, err = plan(c)
	require.Equal(t, "55P03", store.Code(err), "it waits for the lock, but not for long")
	require.NoError(t, tx.Rollback(t.Context()))
	n, err = plan(c)
	require.NoError(t, err)
	require.Positive(t, n)
}

// TestARenewalReturnsTheTimeAfterItsCommit: runs start by that time, so a commit that waits for a standby or a disk must
// not make them late.
func TestARenewalReturnsTheTimeAfterItsCommit(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	session := b.session()
	b.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END'`)
	b.exec(`CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON session DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
		EXECUTE FUNCTION slow()`)
	before := b.now()
	s, err := b.store.Renew(t.Context(), session, time.Hour, true)
	require.NoError(t, err)
	require.Greater(t, s.Now.Sub(before), 300*time.Millisecond)
	require.False(t, s.Now.After(b.now()))
}
