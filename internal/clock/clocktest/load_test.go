package clocktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2*time.Second, allow(time.Second, "0.40 9.00 9.00 1/300 4711\n", 2), "idle")
	require.Equal(t, 3*time.Second, allow(time.Second, "6.00 1.00 1.00 1/300 4711\n", 2), "busy for a minute")
	require.Equal(t, 4*time.Second, allow(time.Second, "0.40 1.00 1.00 8/300 4711\n", 2), "busy now")
	require.Equal(t, 6*time.Second, allow(time.Second, "90.00 1.00 1.00 8/300 4711\n", 2), "hopeless")
	require.Equal(t, 2*time.Second, allow(time.Second, "unknown", 2))
	require.GreaterOrEqual(t, Allow(time.Second), time.Second)
}
