package engine

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// takes returns how many runs of namespaces a claim may take, in turns.
func (c *shares) takes(namespaces ...uuid.UUID) (n int) {
	for more := true; more; {
		more = false
		for _, id := range namespaces {
			if c.taken < c.acquired && !c.Full(id) {
				c.Took(id)
				n, more = n+1, true
			}
		}
	}
	return n
}

// TestSlotsAreShared: a namespace may have three times the free slots, two that take at once three sevenths each, and one
// that has none may have one.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	one, two, late := uuid.New(), uuid.New(), uuid.New()
	for size, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 100: 75, 1000: 750} {
		s := newSlots(size)
		require.Equal(t, want, s.shares(s.acquire(size, 1)).takes(one), "of %d, alone", size)
	}
	s := newSlots(1000)
	first := s.shares(s.acquire(1000, 1))
	require.Equal(t, 858, first.takes(one, two), "something is left for others")
	s.release(1000 - 858)

	// Runs that are being claimed count.
	second := s.shares(s.acquire(1000, 1))
	require.Equal(t, 107, second.takes(one, late))
	require.Equal(t, map[uuid.UUID]int{late: 107}, second.of, "one has its share")
	require.True(t, second.refused)
	s.release(142 - 107)
	second.end()
	for range 400 {
		s.start(one)
	}
	first.end()
	s.release(458 + 107)
	require.Equal(t, map[uuid.UUID]used{one: {n: 400}}, s.of)
	for range 400 {
		s.end(one)
	}
	require.Empty(t, s.of)
	require.Equal(t, 1000, s.left())

	s.free, s.of[one] = 1, used{n: 999}
	require.Equal(t, 1, s.shares(s.acquire(1000, 1)).takes(late), "there is always one")
}

// TestFewSlotsAreGathered: a namespace near its share waits for more, not long, and not longer because it starts other
// runs meanwhile, such as those under limits.
func TestFewSlotsAreGathered(t *testing.T) {
	t.Parallel()
	s := newSlots(100)
	id := uuid.New()
	s.free, s.of[id] = 26, used{n: 74}
	begun := clock.Elapsed()
	full := s.shares(0).Full(id)
	if clock.Elapsed()-begun < gatherShare {
		require.True(t, full, "it waits for more")
	}
	waits := s.of[id].since
	require.Positive(t, waits)
	s.start(id)
	s.end(id)
	s.free--
	require.True(t, s.shares(0).Full(id) || clock.Elapsed()-waits >= gatherShare)
	require.Equal(t, waits, s.of[id].since, "it does not begin again")
	s.of[id] = used{n: 74, since: clock.Elapsed() - gatherShare - time.Millisecond}
	require.False(t, s.shares(0).Full(id), "but not long")
	c := s.shares(0)
	c.Took(id)
	require.Zero(t, s.of[id].since)
}
