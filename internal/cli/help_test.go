package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestHelpIsNarrow: the flags in the help of each command fit into 80 columns, except for values without spaces.
func TestHelpIsNarrow(t *testing.T) {
	t.Parallel()
	seen := 0
	var check func(*cobra.Command)
	check = func(c *cobra.Command) {
		_, flags, _ := strings.Cut(c.UsageString(), "\nFlags:\n")
		for line := range strings.Lines(flags) {
			if seen++; len(strings.Fields(line)) == 1 {
				continue
			}
			require.LessOrEqual(t, len(line), 81, "%s: %s", c.CommandPath(), line)
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(New("test"))
	require.Greater(t, seen, 200)
}
