package archiver

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
)

// TestWorkspaces: each has a directory of its own, and files that a process left are removed by the next one.
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "sorted")
	require.NoError(t, os.MkdirAll(filepath.Join(parent, "belfry-archive", "0", "left"), 0o700))
	first, err := openWorkspace(parent, 0)
	require.NoError(t, err)
	left, err := os.ReadDir(first.directory)
	require.NoError(t, err)
	require.Empty(t, left)
	second, err := openWorkspace(parent, 0)
	require.NoError(t, err)
	require.NotEqual(t, first.directory, second.directory)
	require.DirExists(t, first.directory, "the second process removes nothing of the first")
	require.NoError(t, first.close())
	require.NoDirExists(t, first.directory)
	again, err := openWorkspace(parent, 0)
	require.NoError(t, err)
	require.Equal(t, first.directory, again.directory)
	require.NoError(t, again.close())
	require.NoError(t, second.close())
}

// TestAWorkspaceIsPrivate: a directory that others can reach, that another user has, or that is a link, is refused.
func TestAWorkspaceIsPrivate(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	for want, prepare := range map[string]func(private string) error{
		"other users can reach": func(private string) error {
			return errors.Join(os.Mkdir(private, 0o700), os.Chmod(private, 0o750))
		},
		"is not a directory": func(private string) error { return os.Symlink(elsewhere, private) },
	} {
		parent := t.TempDir()
		require.NoError(t, prepare(filepath.Join(parent, "belfry-archive")))
		_, err := openWorkspace(parent, 0)
		require.ErrorContains(t, err, want)
	}
	parent := t.TempDir()
	private := filepath.Join(parent, "belfry-archive")
	require.NoError(t, os.Mkdir(private, 0o700))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "file"), filepath.Join(private, "0.lock")))
	_, err := openWorkspace(parent, 0)
	require.Error(t, err)
	left, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Empty(t, left, "no link is followed")
}

// TestTheDiskOfAWorkspaceIsLimited: a sort fails before its files have more bytes than they may, and merged files count
// until they are removed.
func TestTheDiskOfAWorkspaceIsLimited(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{1 << 30, 10_000} {
		w, err := openWorkspace(t.TempDir(), limit)
		require.NoError(t, err)
		s := newSorter[archive.Run](w)
		s.memory, s.fanIn = 30_000, 2
		var failed error
		for _, r := range randomRows(2000) {
			if failed = s.add(r); failed != nil {
				break
			}
		}
		var size int64
		files, err := os.ReadDir(w.directory)
		require.NoError(t, err)
		for _, f := range files {
			info, err := f.Info()
			require.NoError(t, err)
			size += info.Size()
		}
		require.LessOrEqual(t, size, limit)
		if limit == 1<<30 {
			require.NoError(t, failed)
			require.Equal(t, size, w.used)
			require.Greater(t, size, int64(10_000), "the second round must have something to refuse")
		} else {
			require.ErrorContains(t, failed, "raise archive.disk_mb")
		}
		require.NoError(t, w.close())
	}
}

// TestEveryWriteToAScratchFileCounts: a Parquet writer copies its buffers, and io.Copy prefers other methods of a file.
func TestEveryWriteToAScratchFileCounts(t *testing.T) {
	t.Parallel()
	w, err := openWorkspace(t.TempDir(), 1000)
	require.NoError(t, err)
	f, err := w.create()
	require.NoError(t, err)
	_, err = io.Copy(f, io.LimitReader(strings.NewReader(strings.Repeat("x", 900)), 900))
	require.NoError(t, err)
	require.Equal(t, int64(900), w.used)
	_, err = io.Copy(f, io.LimitReader(strings.NewReader(strings.Repeat("x", 900)), 900))
	require.ErrorContains(t, err, "raise archive.disk_mb")
	_, err = io.WriteString(f, strings.Repeat("x", 900))
	require.ErrorContains(t, err, "raise archive.disk_mb")
	require.NoError(t, f.remove())
	require.Zero(t, w.used)
	require.NoError(t, f.file.Close())
	require.NoError(t, w.close())
}
