package cluster_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
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
	<-time.After(2 * time.Second) // each node renews its session meanwhile
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
	vanished, unlisted := c.vanished(flatten(worked), from, until)
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
