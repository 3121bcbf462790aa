package cluster_test

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// claiming counts the server's processes that run a claim of a node, or read its payloads.
const claiming = `
SELECT count(*) FROM pg_stat_activity
WHERE application_name = $1 AND state = 'active'
  AND (query LIKE '%claimed AS (%' OR query LIKE '%coalesce(v.definition%')`

// sessionOf returns the live session of a node. On a busy machine the node may be without one for a while.
func (c *cluster) sessionOf(n *node) (id uuid.UUID) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(c.t, until(ctx, func() bool {
		return c.pool.QueryRow(ctx,
			`SELECT id FROM session WHERE name = $1 AND expires_at > now() ORDER BY started_at DESC LIMIT 1`, n.name).
			Scan(&id) == nil
	}), "%s has no session", n.name)
	return id
}

// stopInClaim stops a node with SIGSTOP while the server sends it the results of a claim. It returns when, by the
// database clock.
func (c *cluster) stopInClaim(n *node, session uuid.UUID) (stopped time.Time) {
	c.t.Helper()
	application := job.ProcessOf(session).Application()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	signal := func(s syscall.Signal) { require.NoError(c.t, n.cmd.Process.Signal(s)) }
	count := func() (n int) {
		require.NoError(c.t, c.pool.QueryRow(ctx, claiming, application).Scan(&n))
		return n
	}
	for {
		for count() == 0 {
			require.NoError(c.t, ctx.Err(), "the node claims nothing")
		}
		stopped = c.now()
		signal(syscall.SIGSTOP)
		if count() > 0 { // it still does: the client did not read the results before it stopped
			return stopped
		}
		signal(syscall.SIGCONT)
	}
}

// TestTakeoverStuck: a node is suspended inside a claim of 1,000 runs with large payloads, so that the server cannot
// send it the results. It measures how long it takes until other nodes have all of its partitions.
func TestTakeoverStuck(t *testing.T) {
	t.Parallel()
	pauses, runs := number("PAUSES", 1), number("JOBS", 1000)
	c := newCluster(t, setup{nodes: 2, named: true, env: []string{"BELFRY_SLOTS=1000"}})
	payload := json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)
	c.create(runs, 24*time.Hour, func(_ int, in *job.NewJob) {
		in.Definition.Schedule.Every, in.Definition.Payload = "3s", payload
		in.Definition.Target = job.Target{Kind: "noop", Config: json.RawMessage(`{}`)}
		in.Definition.Missed.Policy = job.MissedSkip
	})
	var took figures
	for i := range pauses {
		c.balanced()
		n := c.nodes[i%len(c.nodes)]
		session := c.sessionOf(n)
		stopped := c.stopInClaim(n, session)
		var taken time.Time
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		err := until(ctx, func() bool {
			var left int
			err := c.pool.QueryRow(ctx, `SELECT clock_timestamp(), count(*) FROM partition WHERE owner = $1`, session).
				Scan(&taken, &left)
			return err == nil && left == 0
		})
		cancel()
		require.NoError(t, n.cmd.Process.Signal(syscall.SIGCONT))
		require.NoError(t, err, "the partitions of the suspended node were not taken over")
		took = append(took, taken.Sub(stopped))
	}
	t.Logf("takeover of all partitions of a node suspended inside a claim: pauses=%d %s", pauses, took)
	require.LessOrEqual(t, took.percentile(100), allowed(ttl+2*time.Second))
}
