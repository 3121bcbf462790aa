package pgtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// holdSweeps keeps all processes from sweeping until release is called.
func holdSweeps(t *testing.T, s *server) (release func()) {
	t.Helper()
	conn, err := s.connect(t.Context())
	require.NoError(t, err)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, sweepLock)
	require.NoError(t, err)
	return func() { require.NoError(t, conn.Close(t.Context())) }
}

// sweepUntilGone sweeps until the database is gone: a sweep does nothing while another process sweeps.
func sweepUntilGone(t *testing.T, s *server, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.sweep(t.Context()) == nil && !exists(t, s, name)
	}, time.Minute, 50*time.Millisecond)
}

func TestSweepDropsOldDatabases(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	now, err := s.start(t.Context())
	require.NoError(t, err)
	tooOld := now - int64(maxAge.Seconds()) - 60
	left, used, fresh := databaseName(tooOld, "left"), databaseName(tooOld, "used"), databaseName(now, "fresh")
	t.Cleanup(func() { require.NoError(t, s.drop(context.Background(), left, used, fresh)) })

	release := holdSweeps(t, s)
	for _, name := range []string{left, used, fresh} {
		require.NoError(t, s.create(t.Context(), name))
	}
	user, err := pgx.Connect(t.Context(), s.at(used).String())
	require.NoError(t, err)
	release()

	sweepUntilGone(t, s, left)
	require.True(t, exists(t, s, used), "someone is connected to it")
	require.True(t, exists(t, s, fresh))
	require.NoError(t, user.Ping(t.Context()))
	require.NoError(t, user.Close(t.Context()))
}

func TestSweepKeepsTheTemplatesUsedLast(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	inUse, err := s.findTemplate(t.Context())
	require.NoError(t, err)
	// They are older than any real template.
	var names []string
	release := holdSweeps(t, s)
	for used := range keepTemplates {
		name := fmt.Sprintf("%s%s", templatePrefix, databaseName(int64(used), "")[len(testPrefix):])
		names = append(names, name)
		require.NoError(t, s.create(t.Context(), name))
		require.NoError(t, s.exec(t.Context(),
			fmt.Sprintf(`ALTER DATABASE %s WITH IS_TEMPLATE true`, quote(name)),
			fmt.Sprintf(`COMMENT ON DATABASE %s IS '%d'`, quote(name), used)))
	}
	t.Cleanup(func() {
		for _, name := range names {
			require.NoError(t, dropTemplate(s, name))
		}
	})
	release()

	sweepUntilGone(t, s, names[0])
	require.True(t, exists(t, s, inUse))
}

func TestLastLeaverDropsForAll(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	now, err := s.start(t.Context())
	require.NoError(t, err)
	passed, failed, last := databaseName(now, "passed"), databaseName(now, "failed"), databaseName(now, "last")
	t.Cleanup(func() { require.NoError(t, s.drop(context.Background(), passed, failed, last)) })
	for _, name := range []string{passed, failed, last} {
		require.NoError(t, s.create(t.Context(), name))
		s.enter()
	}
	require.NoError(t, s.leave(passed, true))
	require.True(t, exists(t, s, passed), "it waits for the others")
	require.NoError(t, s.leave(failed, false))
	require.NoError(t, s.leave(last, true))
	require.False(t, exists(t, s, passed))
	require.False(t, exists(t, s, last))
	require.True(t, exists(t, s, failed), "a failed test's database is kept")
}
