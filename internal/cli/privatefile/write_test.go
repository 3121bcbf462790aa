package privatefile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/privatefile"
)

// TestWriteKeepsWhoCanRead: a file that was given to the user or the group of the nodes stays theirs, and no other file can
// be read by others.
func TestWriteKeepsWhoCanRead(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const node = 65534
	type owned struct {
		uid, gid int
		mode     fs.FileMode
	}
	for name, tc := range map[string]struct{ before, after owned }{
		"own":                 {owned{0, 0, 0o644}, owned{0, 0, 0o600}},
		"group of the nodes":  {owned{0, node, 0o640}, owned{0, node, 0o640}},
		"group without right": {owned{0, node, 0o600}, owned{0, node, 0o600}},
		"user of the nodes":   {owned{node, node, 0o400}, owned{node, node, 0o400}},
		"too open":            {owned{0, node, 0o664}, owned{0, node, 0o640}},
	} {
		file := filepath.Join(t.TempDir(), "keyset")
		require.NoError(t, privatefile.Write(file, []byte("new")))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode(), name)

		require.NoError(t, os.Chown(file, tc.before.uid, tc.before.gid))
		require.NoError(t, os.Chmod(file, tc.before.mode))
		require.NoError(t, privatefile.Write(file, []byte("newer")))
		info, err = os.Stat(file)
		require.NoError(t, err)
		stat, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		got := owned{int(stat.Uid), int(stat.Gid), info.Mode()}
		require.Equal(t, tc.after, got, name)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "newer", string(text), name)
	}
}
