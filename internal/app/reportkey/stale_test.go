package reportkey

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStale: by the wall clock, whatever made the time pass.
func TestStale(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	for after, want := range map[time.Duration]bool{
		0: false, 2 * time.Minute: false, 2*time.Minute + 1: true, -time.Hour: true,
	} {
		require.Equal(t, want, (&reading{at: at}).stale(at.Add(after)), after)
		require.True(t, (&reading{at: at, failed: true}).stale(at.Add(after)), after)
	}
}
