package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestStartWhileHistoryIsLocked: a node that starts while a transaction locks the history waits for its end.
func TestStartWhileHistoryIsLocked(t *testing.T) {
	t.Parallel()
	url, pool := pgtest.ServerURL(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK run_history IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	c := testConfig(url)
	c.Listen = freeAddress(t)
	s := serveNode(t, c)
	s.log.await(t, "preparation failed")
	require.NoError(t, tx.Rollback(t.Context()))
	awaitReady(t, "http://"+c.Listen, 200, "")
	require.NoError(t, s.end(t))
}
