package cluster_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cancelWaits cancels the commits of nodes that wait for a standby, and returns how many there were. PostgreSQL then
// reports to the client that the transaction is committed, with a warning: it is, on the primary alone.
const cancelWaits = `
SELECT count(*)::int FROM (
    SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = 'belfry_server') x`

// TestCancelledCommit (F9): both standbys stall, impatient clients create jobs, and the commits that wait for a standby
// are cancelled. Then the primary dies. A row that vanished with it has had no effect: no client got the reply that its
// job exists, and no run of it or of a vanished claim was delivered.
func TestCancelledCommit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, setup{nodes: 3, ha: true, api: true})
	c.create(100, 24*time.Hour, spread)
	u := c.caller(300 * time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var users sync.WaitGroup
	worked := make([][]*created, 4)
	for i := range worked {
		users.Go(func() { worked[i] = u.createBulks(ctx, i, 5, 100*time.Millisecond) })
	}
	c.balanced()

	old, cancelled := c.group.primary, 0
	require.NoError(t, c.group.detach(t.Context()))
	every(6*time.Second, 60, func(int) {
		n, err := ask[int](t.Context(), old, cancelWaits)
		require.NoError(t, err)
		cancelled += n
	})
	require.NoError(t, old.strike(killed))
	_, err := c.group.promote(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.group.rejoin(t.Context(), old))
	c.pool.Reset()
	stop()
	users.Wait()
	c.finishBefore(c.now().Add(5*time.Second), 2*time.Minute)

	r := c.checkFailovers(flatten(worked), nil)
	t.Logf("cancelled=%d %s", cancelled, r)
	require.Positive(t, cancelled)
	r.clean(t)
}
