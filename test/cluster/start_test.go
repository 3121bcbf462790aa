package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// TestStartWithoutDatabase: nodes without a database wait for it, log that, can be stopped, and start working when it
// is there.
func TestStartWithoutDatabase(t *testing.T) {
	t.Parallel()
	c := newCluster(t, setup{own: true})
	c.create(20, 20*time.Second)
	require.NoError(t, c.db.kill(false))
	waiting, log := c.start(), c.log
	c.nodes = append(c.nodes, waiting)
	c.log = filepath.Join(t.TempDir(), "stopped.log")
	logs, stopped := []string{log, c.log}, c.start()
	c.log = log
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, log := range logs {
		var text []byte
		require.NoError(t, until(ctx, func() bool {
			text, _ = os.ReadFile(log)
			return strings.Contains(string(text), "database connection failed") && strings.Contains(string(text), "failures=4\n")
		}), "a node does not say that it waits")
		require.NotContains(t, string(text), "failures=3\n", "a log full of it")
	}
	require.NoError(t, stopped.end(syscall.SIGTERM))
	accepted, err := c.db.start(ctx)
	require.NoError(t, err)
	c.finish(patience)
	firing := c.firing(accepted)
	r := c.check()
	t.Logf("first run %s after the database was there, until the end %s", firing[0], clock.Now().Sub(accepted))
	t.Log(r)
	c.clean(r)
	require.LessOrEqual(t, firing[0], allowed(5*time.Second))
}

// TestStopWithoutDatabase: a node that cannot hand over its work still stops in time, and other nodes do the work that
// it had claimed.
func TestStopWithoutDatabase(t *testing.T) {
	t.Parallel()
	c := newCluster(t, setup{nodes: 1, own: true})
	c.create(50, 20*time.Second, spread)
	c.balanced()
	require.NoError(t, c.db.kill(true))
	begun := clock.Elapsed()
	require.Error(t, c.nodes[0].end(syscall.SIGTERM), "it cannot say that all is well")
	took := clock.Elapsed() - begun
	_, err := c.db.start(t.Context())
	require.NoError(t, err)
	c.nodes[0] = c.start()
	c.finish(patience)
	r := c.check()
	t.Logf("a stop without a database took %s", took.Round(time.Millisecond))
	t.Log(r)
	c.clean(r)
	require.LessOrEqual(t, took, drain+allowed(5*time.Second))
}
