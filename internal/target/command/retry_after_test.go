package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRetryAfter: soon at first, and never so often that the numbers of attempts run out.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Second, retryAfter(time.Second, 1))
	require.LessOrEqual(t, retryAfter(time.Hour, 1), delayStep)
	var all time.Duration
	for n := range int16(30_000) {
		after := retryAfter(time.Hour, n)
		require.LessOrEqual(t, after, maxDelay)
		all += after
	}
	require.Greater(t, all, 14*24*time.Hour)
}
