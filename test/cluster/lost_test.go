package cluster_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// TestAsynchronousFailover (F8): the standbys are asynchronous and lag behind when the primary dies. Acknowledged writes
// are lost, and never silently: the nodes list the time in which they were acknowledged and log an error. What the
// ledger still has goes on: runs that are leased to a node that has forgotten them are rescued.
func TestAsynchronousFailover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, setup{nodes: 3, async: true, api: true})
	c.create(100, 24*time.Hour, spread)
	u := c.caller(5 * time.Second)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var users sync.WaitGroup
	worked := make([][]*created, 2)
	for i := range worked {
		users.Go(func() { worked[i] = u.createBulks(ctx, i, 5, 100*time.Millisecond) })
	}
	c.balanced()
	old := c.group.primary
	require.NoError(t, c.group.detach(t.Context()))
	// Jobs are acknowledged that no standby has. Then each node renews its session twice: one that renews it again has
	// the answer to the renewal before, and so knows how far the old primary was.
	gone := &created{key: "gone", size: 5, due: clock.Now().Add(3 * time.Second).UTC().Truncate(time.Second)}
	wait, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, until(wait, func() bool {
		u.sendBulk(wait, gone)
		return gone.ids != nil
	}), "nothing is acknowledged")
	for range 2 {
		c.renewed(wait, old)
	}
	require.NoError(t, old.strike(killed))
	_, err := c.group.promote(t.Context())
	require.NoError(t, err)
	c.pool.Reset()
	stop()
	users.Wait()
	c.finishBefore(c.now().Add(5*time.Second), 2*time.Minute)

	var from, until time.Time
	var lost, synchronous bool
	require.NoError(t, c.pool.QueryRow(t.Context(),
		`SELECT received_until, noticed_at, lost, synchronous FROM failover`).Scan(&from, &until, &lost, &synchronous))
	vanished, unlisted := c.vanished(append(flatten(worked), gone), from, until)
	t.Logf("acknowledged jobs that vanished=%d, of these outside the listed time=%d, listed time=%s", vanished, unlisted,
		until.Sub(from))
	require.Positive(t, vanished, "there was nothing to lose")
	require.Zero(t, unlisted)
	require.True(t, lost)
	require.False(t, synchronous)
	require.Zero(t, c.stuck())
	log, err := os.ReadFile(c.log)
	require.NoError(t, err)
	require.Positive(t, strings.Count(string(log), "database failover lost acknowledged writes"))
}

// renewed waits until each node has renewed its session on a server from now on.
func (c *cluster) renewed(ctx context.Context, on *replica) {
	c.t.Helper()
	now, err := ask[time.Time](ctx, on, `SELECT clock_timestamp()`)
	require.NoError(c.t, err)
	require.NoError(c.t, until(ctx, func() bool {
		n, err := ask[int](ctx, on, fmt.Sprintf(`SELECT count(*)::int FROM session WHERE queue_id IS NULL AND renewed_at > '%s'`,
			now.Format(time.RFC3339Nano)))
		return err == nil && n >= len(c.nodes)
	}), "the nodes do not renew their sessions")
}

// vanished counts the jobs that were acknowledged and do not exist, and those of them that were acknowledged outside of
// a time.
func (c *cluster) vanished(bulks []*created, from, until time.Time) (all, outside int) {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(), `SELECT id FROM job`)
	require.NoError(c.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(c.t, err)
	exist := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		exist[id] = true
	}
	for _, b := range bulks {
		for _, id := range b.ids {
			if exist[id] {
				continue
			}
			all++
			if b.at.Before(from) || b.at.After(until) {
				outside++
			}
		}
	}
	return all, outside
}
