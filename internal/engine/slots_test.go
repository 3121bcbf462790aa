package engine

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
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

// slotsAt has a clock that a test sets.
func slotsAt(size int, at *time.Duration) *slots {
	s := newSlots(size)
	s.now = func() time.Duration { return *at }
	return &s
}

// TestSlotsAreShared: a slow namespace may have three times the free slots, two that take at once three sevenths each,
// and one that has none may have one.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	one, two, late := uuid.New(), uuid.New(), uuid.New()
	slow := used{slow: time.Hour}
	at := time.Minute
	for size, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 100: 75, 1000: 750} {
		s := slotsAt(size, &at)
		s.of[one] = slow
		require.Equal(t, want, s.shares(s.acquire(size, 1)).takes(one), "of %d, alone", size)
	}
	s := slotsAt(1000, &at)
	s.of = map[uuid.UUID]used{one: slow, two: slow, late: slow}
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
	require.Positive(t, s.mayStart(one, 1))
	for range 400 {
		s.end(one, false)
	}
	require.Zero(t, s.of[one].n)
	require.Equal(t, 1000, s.left())

	// Attempts in flight have a share by themselves: here of 4 slots, of which a claim has some.
	s = slotsAt(4, &at)
	c := s.shares(s.acquire(4, 1))
	require.Equal(t, 3, c.takes(late))
	require.Positive(t, s.mayStart(late, 1), "it is only being claimed")
	for _, has := range []bool{false, false, true} {
		s.start(one)
		require.Equal(t, has, s.mayStart(one, 1) == 0)
	}
	require.Positive(t, s.mayStart(late, 1), "it has none")
	s.end(one, false)
	require.Positive(t, s.mayStart(one, 1))
	require.Equal(t, []int{2, 2}, []int{s.started, s.of[one].started})

	s = slotsAt(1000, &at)
	s.free, s.of[one] = 1, used{n: 999, slow: time.Hour}
	require.Equal(t, 1, s.shares(s.acquire(1000, 1)).takes(late), "there is always one")
}

// TestQuickNamespacesGetNearlyAllSlots: one that has just begun, or returns them soon, and whose runs are not deferred.
func TestQuickNamespacesGetNearlyAllSlots(t *testing.T) {
	t.Parallel()
	id, other := uuid.New(), uuid.New()
	at := time.Minute
	s := slotsAt(1000, &at)
	require.Equal(t, 984, s.shares(s.acquire(1000, 1)).takes(id), "it has just begun")
	s.release(1000 - 984)
	require.True(t, s.shares(0).Full(id), "one in 64 is left")
	require.Equal(t, 12, s.shares(s.acquire(1000, 1)).takes(other), "for others")

	// what follows later, with half of the slots free
	for _, c := range []struct {
		after time.Duration
		ended int
		last  bool // whether the last one was deferred
		want  int
	}{
		{turnover, 500, false, 484},
		{turnover, 499, false, 250},
		{turnover, 0, false, 250},
		{turnover - 1, 0, false, 484},
		{2 * turnover, 1000, false, 484},
		{2 * turnover, 999, false, 250},
		{turnover - 1, 600, true, 250},
	} {
		s := slotsAt(1000, &at)
		s.free = 500 - c.ended
		for range 500 + c.ended {
			s.start(id)
		}
		for i := range c.ended {
			s.end(id, c.last && i == c.ended-1)
		}
		at += c.after
		require.Equal(t, c.want, s.shares(s.acquire(1000, 1)).takes(id), "%+v", c)
		if c.after >= turnover {
			require.Zero(t, s.of[id].ended, "counted again from now on")
		}
	}

	// A deferral is remembered for a day, also while the namespace has no slots.
	s = slotsAt(1000, &at)
	s.acquire(1, 1)
	s.start(id)
	s.end(id, true)
	at += shareAfterDefer - 1
	c := s.shares(s.acquire(1000, 1))
	require.Equal(t, 750, c.takes(id))
	s.release(1000)
	c.end()
	at++
	require.Equal(t, 984, s.shares(s.acquire(1000, 1)).takes(id))

	s = slotsAt(1, &at)
	s.acquire(1, 1)
	s.start(id)
	s.end(id, false)
	require.Empty(t, s.of, "there is nothing to remember")
}

// TestNamespacesThatAreNotAloneHaveTheirShare: while another one starts runs, or waits for its share.
func TestNamespacesThatAreNotAloneHaveTheirShare(t *testing.T) {
	t.Parallel()
	id, other := uuid.New(), uuid.New()
	at := time.Minute
	taken := func(s *slots) int {
		s.free = 1000
		c := s.shares(s.acquire(1000, 1))
		defer func() { c.end(); s.release(c.acquired) }()
		return c.takes(id)
	}
	for name, asks := range map[string]func(*slots){
		"starts": func(s *slots) { s.start(other) },
		"waits": func(s *slots) {
			s.free, s.of[other] = 0, used{n: 1, slow: time.Hour}
			require.True(t, s.shares(0).Full(other))
		},
	} {
		s := slotsAt(1000, &at)
		asks(s)
		s.start(id) // the last one
		s.end(id, false)
		at += aloneAfter - 1
		require.Equal(t, 750, taken(s), name)
		at++
		require.Equal(t, 984, taken(s), name)
	}

	s := slotsAt(1000, &at)
	s.start(access.CanaryNamespace)
	require.Equal(t, 984, taken(s), "the canary needs no more than one")
}

// TestFewSlotsAreGathered: a namespace near its share waits for more, not long, and not longer because it starts other
// runs meanwhile, such as those under limits.
func TestFewSlotsAreGathered(t *testing.T) {
	t.Parallel()
	at := time.Minute
	s := slotsAt(100, &at)
	id := uuid.New()
	s.free, s.of[id] = 26, used{n: 74, slow: time.Hour}
	require.True(t, s.shares(0).Full(id), "it waits for more")
	at += gatherShare - 1
	s.start(id)
	s.end(id, false)
	s.free--
	require.True(t, s.shares(0).Full(id))
	at++
	require.False(t, s.shares(0).Full(id), "but not long, and it did not begin again")
	c := s.shares(0)
	c.Took(id)
	require.Zero(t, s.of[id].since)
}

// TestDecisionsHaveTheSameShare: the admitters let a namespace have nearly all slots when claims do, never of the
// reserve, and one that waits for them keeps another one from being alone.
func TestDecisionsHaveTheSameShare(t *testing.T) {
	t.Parallel()
	id, other := uuid.New(), uuid.New()
	for name, c := range map[string]struct {
		started int
		claimed int // slots of claims
		change  func(s *slots, at *time.Duration)
		want    bool
	}{
		"alone":             {983, 0, nil, false},
		"reserve":           {984, 0, nil, true},
		"reserve in claims": {900, 84, nil, true},
		"few in flight":     {700, 299, nil, false},
		"not alone":         {900, 0, func(s *slots, _ *time.Duration) { s.ask(other) }, true},
		"slow":              {900, 0, func(_ *slots, at *time.Duration) { *at += turnover }, true},
		"deferred": {901, 0, func(s *slots, _ *time.Duration) {
			s.end(id, true)
		}, true},
	} {
		at := time.Minute
		s := slotsAt(1000, &at)
		s.acquire(c.started+c.claimed, 1)
		for range c.started {
			s.start(id)
		}
		if c.change != nil {
			c.change(s, &at)
		}
		require.Equal(t, 1, s.acquire(1, 1))
		require.Equal(t, c.want, s.mayStart(id, 1) == 0, name)
	}

	at := time.Minute
	s := slotsAt(1000, &at)
	s.acquire(980, 1)
	for range 900 {
		s.start(other)
	}
	s.of[other] = used{n: 900, started: 900, slow: time.Hour}
	for range 80 {
		s.start(id)
	}
	at += aloneAfter
	require.Zero(t, s.mayStart(other, 1))
	for range 80 {
		s.end(id, false)
	}
	require.False(t, s.mayHaveAll(id, &used{}), "the other one waits")
}
