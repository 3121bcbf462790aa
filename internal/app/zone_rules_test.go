package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestZoneRules: other rules have another name, and copies of the zones that schedules cannot use do not count.
func TestZoneRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "posix"), 0o700))
	names := map[string]bool{zoneRules([]string{"", dir}): true}
	for _, content := range []string{"2026a", "2026b"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "Berlin"), []byte(content), 0o600))
		names[zoneRules([]string{"", dir})] = true
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "posix", "Berlin"), []byte("2026b"), 0o600))
	names[zoneRules([]string{"", dir})] = true
	require.Len(t, names, 3)
}
