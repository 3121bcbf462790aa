package terminal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/terminal"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 100_000: "100,000", -1000: "-1,000", -100: "-100", 1_234_567: "1,234,567",
	} {
		require.Equal(t, want, terminal.Number(n))
	}
	require.Equal(t, "10,000+", terminal.AtLeast(10_000, true))
	require.Equal(t, "·▁▄█", terminal.Sparkline([]int64{0, 1, 50, 100}))
	require.Equal(t, "··", terminal.Sparkline([]int64{0, 0}))
	require.Empty(t, terminal.Sparkline(nil))
}
