package postgres_test

import (
	"context"
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// neverRead sends statements in one transaction, whose results are megabytes, and reads nothing. It returns the process
// of the server when that waits for its client, with the locks of the first statement.
func (b *jobs) neverRead(application, first string) (backend uint32) {
	b.t.Helper()
	config, err := pgconn.ParseConfig(b.pool.Config().ConnString())
	require.NoError(b.t, err)
	config.RuntimeParams["application_name"] = application
	conn, err := pgconn.ConnectConfig(b.t.Context(), config)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Conn().Close() })
	conn.Frontend().Send(&pgproto3.Query{String: first + `; SELECT repeat('x', 1000000) FROM generate_series(1, 100)`})
	require.NoError(b.t, conn.Frontend().Flush())
	require.Eventually(b.t, func() bool {
		return b.count(`pg_stat_activity
			WHERE pid = $1 AND wait_event = 'ClientWrite' AND xact_start < now() - interval '1 s'`, conn.PID()) == 1
	}, clocktest.Allow(10*time.Second), 10*time.Millisecond)
	return conn.PID()
}

// lockText is the number of the lock of a session.
func lockText(session uuid.UUID) string {
	return strconv.FormatInt(int64(binary.BigEndian.Uint64(session[8:])), 10)
}

// takeSoon takes a partition, and fails if it has to wait for a client that never reads.
func (b *jobs) takeSoon(session uuid.UUID, from job.Ownership) []job.Ownership {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), clocktest.Allow(10*time.Second))
	defer cancel()
	taken, err := b.store.Take(ctx, session, []job.Ownership{from})
	require.NoError(b.t, err)
	return taken
}

// A node that stopped reading while it claims keeps the lock of its session for ever. Whoever takes over ends its
// transaction.
func TestTakeEndsAStuckClaim(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	stuck, next := b.session(), b.session()
	owned := b.take(stuck, b.ownership())[0]
	b.neverRead("other", `SELECT pg_advisory_xact_lock_shared(`+lockText(stuck)+`)`)
	require.Empty(t, b.take(next, job.Ownership{Partition: partition}), "not the owner: nothing is taken or ended")
	b.expire(stuck)
	require.Len(t, b.takeSoon(next, owned), 1)
}

// Whoever takes over also ends the other transactions of the node that wait for it: a plan that keeps cursors, or a
// claim for workers that keeps a queue.
func TestTakeEndsEveryStuckTransaction(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	process := job.NewProcess()
	stuck, next := process.NewSession(), b.session()
	_, err := b.store.Register(t.Context(), stuck, "stuck", time.Hour)
	require.NoError(t, err)
	owned := b.take(stuck, b.ownership())[0]
	const lock = `SELECT pg_advisory_xact_lock(42)`
	backend := b.neverRead(process.Application(), lock)
	other := b.neverRead(job.NewProcess().Application(), `SELECT`)
	alive := func(pid uint32) bool { return b.count(`pg_stat_activity WHERE pid = $1`, pid) == 1 }

	require.Empty(t, b.take(next, owned), "a live owner")
	require.True(t, alive(backend), "nothing of a live session is ended")
	b.expire(stuck)
	require.Len(t, b.takeSoon(next, owned), 1)
	require.Eventually(t, func() bool { return !alive(backend) }, clocktest.Allow(10*time.Second), 10*time.Millisecond)
	b.exec(lock)
	require.True(t, alive(other), "nothing of another node is ended")
}

// However busy the other connections of a node are, its session is renewed.
func TestRenewalHasConnectionsOfItsOwn(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	const connections = 2
	db, err := postgres.Open(t.Context(), b.pool.Config().ConnString(), connections, postgres.Options{})
	require.NoError(t, err)
	defer db.Close()
	session := b.session()
	tx := b.begin() // a claim of the session is under way, so to resolve one has to wait
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock_shared(`+lockText(session)+`)`)
	require.NoError(t, err)
	done := make(chan error, connections)
	for range connections {
		go func() {
			_, err := db.Engine().ResolveClaim(t.Context(), session, nil)
			done <- err
		}()
	}
	require.Eventually(t, func() bool { return db.PoolStats().Acquired == connections }, clocktest.Allow(10*time.Second),
		time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), clocktest.Allow(10*time.Second))
	defer cancel()
	_, err = db.Members().Renew(ctx, session, time.Hour, true)
	require.NoError(t, err)
	require.EqualValues(t, connections, db.PoolStats().Acquired, "the others are still busy")
	require.NoError(t, tx.Rollback(t.Context()))
	for range connections {
		require.NoError(t, <-done)
	}
}
