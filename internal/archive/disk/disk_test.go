package disk_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive/disk"
	"github.com/belfry-dev/belfry/internal/archive/storetest"
)

func open(t *testing.T, directory string) *disk.Store {
	s, err := disk.Open(directory)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	directory := filepath.Join(t.TempDir(), "new", "archive")
	storetest.Run(t, open(t, directory))
	left, err := os.ReadDir(filepath.Join(directory, ".partial"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing partial is left")
}

// TestPartialFilesOfDeadProcessesAreRemoved, and those that a process may still write are not.
func TestPartialFilesOfDeadProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	open(t, directory)
	old, fresh := filepath.Join(directory, ".partial", "old"), filepath.Join(directory, ".partial", "fresh")
	require.NoError(t, os.WriteFile(old, []byte("half an obj"), 0o600))
	require.NoError(t, os.WriteFile(fresh, nil, 0o600))
	info, err := os.Stat(fresh)
	require.NoError(t, err)
	long := info.ModTime().Add(-25 * time.Hour)
	require.NoError(t, os.Chtimes(old, long, long))

	s := open(t, directory)
	require.NoFileExists(t, old)
	require.FileExists(t, fresh)
	names, err := s.List(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Empty(t, names, "a partial file is no object")
}

// TestLinksDoNotLeaveTheDirectory: whoever can write into the directory cannot make Belfry write elsewhere.
func TestLinksDoNotLeaveTheDirectory(t *testing.T) {
	t.Parallel()
	directory, outside := t.TempDir(), t.TempDir()
	s := open(t, directory)
	require.NoError(t, os.Symlink(outside, filepath.Join(directory, "v1")))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	require.Error(t, s.Put(t.Context(), "v1/object", nothing{}, 0))
	_, err := s.Get(t.Context(), "v1/secret", 0, 10)
	require.Error(t, err)
}

// nothing is an empty body.
type nothing struct{}

func (nothing) Read([]byte) (int, error)       { return 0, io.EOF }
func (nothing) Seek(int64, int) (int64, error) { return 0, nil }
