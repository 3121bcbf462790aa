package app

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/doctor"
)

// TestMemoryLimit: the limit that counts is that of the unit or container of the node, or a lower one above it.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const unit, slice = "sys/fs/cgroup/system.slice/belfry.service/memory.max", "sys/fs/cgroup/system.slice/memory.max"
	for name, tc := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"none": {nil, 0},
		"unit": {map[string]string{
			"proc/self/cgroup": "0::/system.slice/belfry.service\n", unit: "1000\n", slice: "max\n",
		}, 1000},
		"slice": {map[string]string{
			"proc/self/cgroup": "0::/system.slice/belfry.service\n", unit: "1000\n", slice: "500\n",
		}, 500},
		"container":    {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "700\n"}, 700},
		"not limited":  {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		"both version": {map[string]string{"proc/self/cgroup": "1:name=systemd:/x\n0::/system.slice\n", slice: "600"}, 600},
	} {
		files := fstest.MapFS{}
		for path, text := range tc.files {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		require.Equal(t, tc.want, memoryLimit(files), name)
	}
}

// TestDoctorDoesNotWriteForOthers: root leaves nothing in a directory of another user, or in place of one that a node has
// to create.
func TestDoctorDoesNotWriteForOthers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can write as another user")
	}
	own, other := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chown(other, 65534, 65534))
	missing := filepath.Join(t.TempDir(), "archive")
	probe := func(directory string) doctor.Probe {
		c := Config{}
		c.Archive.URL = "file://" + directory
		return probeArchive(t.Context(), c)
	}
	require.Equal(t, doctor.Probe{Asked: true, What: "file://" + own}, probe(own))
	for _, directory := range []string{other, missing} {
		require.Contains(t, probe(directory).Skipped, "run doctor as the user of the nodes")
	}
	require.NoDirExists(t, missing)
	left, err := os.ReadDir(other)
	require.NoError(t, err)
	require.Empty(t, left)
}
