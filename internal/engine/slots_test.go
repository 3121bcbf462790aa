package engine

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// TestSlotsAreShared: a namespace may have three times the free slots, and one that has none may have one.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	s := newSlots(100)
	many, few := uuid.New(), uuid.New()
	n := s.acquire(1000, 1)
	require.Equal(t, 100, n)
	require.Equal(t, 75, s.capacity(many, n))
	for range 75 {
		s.start(many)
	}
	s.release(n - 75)
	n = s.acquire(1000, 1)
	require.Equal(t, 25, n)
	require.Zero(t, s.capacity(many, n))
	require.Equal(t, 19, s.capacity(few, n))
	s.release(n)
	s.end(many)
	require.Equal(t, 26, s.left())
	s.of[many] = used{74, clock.Elapsed()}
	if n := s.capacity(many, 0); clock.Elapsed()-s.of[many].last < gatherShare {
		require.Zero(t, n, "it waits for more")
	}
	s.of[many] = used{74, clock.Elapsed() - gatherShare}
	require.Equal(t, 1, s.capacity(many, 0), "but not long")

	s.free, s.of[many] = 1, used{99, 0}
	require.LessOrEqual(t, s.capacity(many, 0), 0)
	require.Equal(t, 1, s.capacity(few, 0), "there is always one")
}
