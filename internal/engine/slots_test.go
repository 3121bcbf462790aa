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

// slowSlots has namespaces that do not return their slots soon.
func slowSlots(size int, namespaces ...uuid.UUID) *slots {
	s := newSlots(size)
	for _, id := range namespaces {
		s.of[id] = used{slow: time.Hour}
	}
	return &s
}

// TestSlotsAreShared: a slow namespace may have three times the free slots, two that take at once three sevenths each,
// and one that has none may have one.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	one, two, late := uuid.New(), uuid.New(), uuid.New()
	for size, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 100: 75, 1000: 750} {
		s := slowSlots(size, one)
		require.Equal(t, want, s.shares(s.acquire(size, 1)).takes(one), "of %d, alone", size)
	}
	s := slowSlots(1000, one, two, late)
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
	require.Equal(t, 400, s.of[one].n)
	for range 400 {
		s.end(one, false)
	}
	require.Zero(t, s.of[one].n)
	require.Equal(t, 1000, s.left())

	s.free, s.of[one] = 1, used{n: 999, slow: time.Hour}
	require.Equal(t, 1, s.shares(s.acquire(1000, 1)).takes(late), "there is always one")
}

// TestQuickNamespacesGetNearlyAllSlots: one that returns them soon, whose runs are not deferred, while it is alone.
func TestQuickNamespacesGetNearlyAllSlots(t *testing.T) {
	t.Parallel()
	id, other := uuid.New(), uuid.New()
	s := newSlots(1000)
	require.Equal(t, 984, s.shares(s.acquire(1000, 1)).takes(id), "it has just begun")
	require.Positive(t, s.of[id].counted, "from then on its deliveries count")
	s.release(1000 - 984)
	require.True(t, s.shares(0).Full(id), "one in 64 is left")
	require.Equal(t, 12, s.shares(s.acquire(1000, 1)).takes(other), "for others")

	// another one asked for slots, and this one after it
	now := clock.Elapsed()
	s = newSlots(1000)
	s.shares(s.acquire(1, 1)).takes(other)
	s.ask(id, now)
	if took := s.shares(s.acquire(1000, 1)).takes(id); clock.Elapsed()-now < aloneAfter {
		require.Equal(t, 750, took)
	}
	s = newSlots(1000)
	s.free, s.of[other] = 0, used{n: 1, slow: time.Hour}
	require.True(t, s.shares(0).Full(other))
	s.free = 1000
	if took := s.shares(s.acquire(1000, 1)).takes(id); clock.Elapsed()-now < aloneAfter {
		require.Equal(t, 750, took, "it waits")
	}
	s = newSlots(1000)
	s.ask(other, now-aloneAfter)
	require.Equal(t, 984, s.shares(s.acquire(1000, 1)).takes(id), "no longer")

	// what follows after turnover, with half of the slots free
	for _, c := range []struct {
		ended int
		last  bool // whether the last one was deferred
		want  int
	}{{500, false, 484}, {499, false, 250}, {600, true, 250}, {0, false, 250}} {
		s := newSlots(1000)
		s.free = 500 - c.ended
		for range 500 + c.ended {
			s.start(id)
		}
		for i := range c.ended {
			s.end(id, c.last && i == c.ended-1)
		}
		u := s.of[id]
		u.counted -= turnover
		s.of[id] = u
		require.Equal(t, c.want, s.shares(s.acquire(1000, 1)).takes(id), "%d ended, deferred: %t", c.ended, c.last)
		require.Zero(t, s.of[id].ended, "counted again from now on")
	}

	// A deferral is remembered when the namespace has no slots.
	s = newSlots(1000)
	s.acquire(1, 1)
	s.start(id)
	s.end(id, true)
	require.Equal(t, 750, s.shares(s.acquire(1000, 1)).takes(id))

	s = newSlots(1)
	s.acquire(1, 1)
	s.start(id)
	s.end(id, false)
	require.Empty(t, s.of)
}

// TestFewSlotsAreGathered: a namespace near its share waits for more, not long, and not longer because it starts other
// runs meanwhile, such as those under limits.
func TestFewSlotsAreGathered(t *testing.T) {
	t.Parallel()
	s := newSlots(100)
	id := uuid.New()
	s.free, s.of[id] = 26, used{n: 74, slow: time.Hour, counted: clock.Elapsed()}
	begun := clock.Elapsed()
	full := s.shares(0).Full(id)
	if clock.Elapsed()-begun < gatherShare {
		require.True(t, full, "it waits for more")
	}
	waits := s.of[id].since
	require.Positive(t, waits)
	s.start(id)
	s.end(id, false)
	s.free--
	require.True(t, s.shares(0).Full(id) || clock.Elapsed()-waits >= gatherShare)
	require.Equal(t, waits, s.of[id].since, "it does not begin again")
	s.of[id] = used{n: 74, slow: time.Hour, since: clock.Elapsed() - gatherShare - time.Millisecond}
	require.False(t, s.shares(0).Full(id), "but not long")
	c := s.shares(0)
	c.Took(id)
	require.Zero(t, s.of[id].since)
}
