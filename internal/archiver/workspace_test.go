package archiver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWorkspaces: each has a directory of its own, and files that a process left are removed by the next one.
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "sorted")
	require.NoError(t, os.MkdirAll(filepath.Join(parent, "0", "left"), 0o700))
	first, err := openWorkspace(parent)
	require.NoError(t, err)
	left, err := os.ReadDir(first.directory)
	require.NoError(t, err)
	require.Empty(t, left)
	second, err := openWorkspace(parent)
	require.NoError(t, err)
	require.NotEqual(t, first.directory, second.directory)
	require.DirExists(t, first.directory, "the second process removes nothing of the first")
	require.NoError(t, first.close())
	require.NoDirExists(t, first.directory)
	again, err := openWorkspace(parent)
	require.NoError(t, err)
	require.Equal(t, first.directory, again.directory)
	require.NoError(t, again.close())
	require.NoError(t, second.close())
}
