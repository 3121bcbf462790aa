package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestComeAgain: soon at first, and never so often that the numbers of attempts run out.
func TestComeAgain(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Second, comeAgain(time.Second, 1))
	require.LessOrEqual(t, comeAgain(time.Hour, 1), soonest)
	var all time.Duration
	for n := range int16(30_000) {
		after := comeAgain(time.Hour, n)
		require.LessOrEqual(t, after, maxAfter)
		all += after
	}
	require.Greater(t, all, 14*24*time.Hour)
}
