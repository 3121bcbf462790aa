package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/doctor"
)

// newSmallDatabase has the tables and temporary files of a server on a disk of 192 MB of its own, but not its WAL, without
// which PostgreSQL stops.
func newSmallDatabase(t *testing.T) (*database, string) {
	t.Helper()
	d := newDatabase(t)
	require.NoError(t, d.kill(true))
	base, disk := filepath.Join(d.dir, "base"), filepath.Join(filepath.Dir(d.dir), "disk")
	require.NoError(t, os.Mkdir(disk, 0o755))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=192m"); errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a small disk")
	} else {
		require.NoError(t, err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	require.NoError(t, exec.Command("cp", "-a", base, disk).Run())
	require.NoError(t, os.RemoveAll(base))
	require.NoError(t, os.Symlink(filepath.Join(disk, "base"), base))
	_, err := d.start(t.Context())
	require.NoError(t, err)
	return d, disk
}

// fill writes to the small disk until it is full, and returns how to undo it.
func (c *cluster) fill() (undo func()) {
	c.t.Helper()
	f, err := os.Create(filepath.Join(c.disk, "other"))
	require.NoError(c.t, err)
	for chunk := make([]byte, 4096); err == nil; _, err = f.Write(chunk) {
	}
	require.ErrorIs(c.t, err, syscall.ENOSPC)
	return func() {
		require.NoError(c.t, f.Close())
		require.NoError(c.t, os.Remove(f.Name()))
	}
}

// refused returns whether a node reports that the disk of the database is full: readiness and metric.
func (n *node) refused(ctx context.Context) bool {
	status, ready := n.probe(ctx, "/readyz")
	_, metrics := n.probe(ctx, "/metrics")
	return status == http.StatusServiceUnavailable && strings.Contains(ready, "it cannot write: disk_full") &&
		!strings.Contains(metrics, "\nbelfry_database_refused_total{cause=\"disk_full\"} 0\n")
}

// TestFullDisk: while PostgreSQL still answers, readiness, metrics and doctor say that its disk is full. When it has space
// again, the node works on, and no occurrence is lost.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := newCluster(t, setup{nodes: 1, small: true, api: true})
	p := &patient{cluster: c, as: c.url, env: []string{"BELFRY_LISTEN=" + c.nodes[0].listen}}
	c.await("not ready", c.nodes, (*node).ready)
	require.Zero(t, p.awaitVerdict(map[string]doctor.Status{}))
	c.create(50, 20*time.Second, spread)
	c.balanced()
	undo := c.fill()
	c.await("it does not notice the full disk", c.nodes, (*node).refused)
	found, code := p.doctor()
	require.Equal(t, doctor.Failure, found["disk"])
	require.Equal(t, 2, code)
	undo()
	c.await("it does not recover", c.nodes, (*node).ready)
	c.finish(patience)
	r := c.check()
	t.Log(r)
	c.clean(r)
}
