package cluster_test

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// inPartition gives job i an id in partition i.
func inPartition(i int, in *job.NewJob) {
	for in.ID = uuid.New(); job.PartitionOf(in.ID) != int16(i%job.Partitions); in.ID = uuid.New() {
	}
}

// balanced waits until all nodes own partitions and every partition has a live owner.
func (c *cluster) balanced() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(c.t, until(ctx, func() bool {
		var ok bool
		err := c.pool.QueryRow(ctx, `
SELECT count(DISTINCT s.id) = $1 AND count(s.id) = count(*)
FROM partition p LEFT JOIN session s ON s.id = p.owner AND s.expires_at > now()`, len(c.nodes)).Scan(&ok)
		return err == nil && ok
	}), "the nodes do not share the partitions")
}

// owned lists the partitions of a node.
func (c *cluster) owned(n *node) []int16 {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(),
		`SELECT p.id FROM partition p JOIN session s ON s.id = p.owner AND s.expires_at > now() WHERE s.name = $1`,
		n.name)
	require.NoError(c.t, err)
	owned, err := pgx.CollectRows(rows, pgx.RowTo[int16])
	require.NoError(c.t, err)
	return owned
}

// takenOver waits until each of the partitions had a run that was due after an instant. It returns when the last of
// them had its first.
func (c *cluster) takenOver(partitions []int16, since time.Time) time.Duration {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	var last time.Time
	require.NoError(c.t, until(ctx, func() bool {
		first := map[int16]time.Time{}
		for _, x := range c.sink.since(since) {
			k, err := job.ParseRunID(x.run)
			if at, ok := first[k.Partition]; err == nil && x.due.After(since) && (!ok || x.received.Before(at)) {
				first[k.Partition] = x.received
			}
		}
		for _, p := range partitions {
			at, ok := first[p]
			if !ok {
				return false
			}
			if at.After(last) {
				last = at
			}
		}
		return true
	}), "partitions were not taken over")
	return last.Sub(since)
}

// TestTakeover: a node that owns partitions is killed. It measures how long it takes until all of them have runs again.
func TestTakeover(t *testing.T) {
	t.Parallel()
	kills := number("KILLS", 2)
	c := newCluster(t, setup{nodes: 3, named: true})
	c.create(job.Partitions, 24*time.Hour, inPartition)
	var took figures
	for range kills {
		c.balanced()
		<-time.After(time.Duration(rand.Int64N(int64(time.Second)))) // anywhere between two renewals
		i := rand.IntN(len(c.nodes))
		var owned []int16
		require.Eventually(t, func() bool { owned = c.owned(c.nodes[i]); return len(owned) > 0 }, 5*time.Minute,
			20*time.Millisecond, "a node owns nothing")
		killed := clock.Now()
		_ = c.nodes[i].end(syscall.SIGKILL)
		took = append(took, c.takenOver(owned, killed))
		c.nodes[i] = c.start()
	}
	t.Logf("takeover of all partitions of a killed node: kills=%d %s", kills, took)
	require.LessOrEqual(t, took.percentile(99), allowed(ttl+time.Second))
}
