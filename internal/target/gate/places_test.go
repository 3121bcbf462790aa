package gate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

func numbered(i int) Place { return Place{Host: fmt.Sprint(i)} }

// visit has one delivery come to an end.
func visit(t *testing.T, g *Gate, to Place, r Result) {
	t.Helper()
	pass, out := g.Enter(t.Context(), to)
	require.Nil(t, out)
	pass.Leave(r)
}

// toRest has a place fail until it is given a rest.
func toRest(t *testing.T, g *Gate, to Place) {
	t.Helper()
	for range least {
		visit(t, g, to, Bad)
	}
}

// known says whether a place is remembered.
func (g *Gate) known(to Place) bool { return g.places.by[to] != nil }

// check that lists and map agree.
func (g *Gate) check(t *testing.T) {
	t.Helper()
	busy := 0
	for name, p := range g.places.by {
		require.Equal(t, name, p.name)
		if p.in == nil {
			require.Positive(t, p.underWay)
			busy++
		}
	}
	require.Len(t, g.places.by, busy+g.places.idle.Len()+g.places.resting.Len())
	require.LessOrEqual(t, len(g.places.by), max(maxPlaces, busy))
}

// TestPlacesAreBounded: also if each is given a rest; the oldest goes first.
func TestPlacesAreBounded(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *Gate, Place){
		"idle":    func(t *testing.T, g *Gate, to Place) { t.Helper(); visit(t, g, to, Good) },
		"resting": toRest,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGate(Options{})
				for i := range maxPlaces {
					use(t, g, numbered(i))
				}
				_, _ = g.Enter(t.Context(), numbered(0)) // it is used again: the last now, or busy
				for i := range maxPlaces / 2 {
					use(t, g, numbered(maxPlaces+i))
				}
				g.check(t)
				require.Len(t, g.places.by, maxPlaces)
				require.True(t, g.known(numbered(0)))
				require.False(t, g.known(numbered(1)))
				require.True(t, g.known(numbered(maxPlaces-1)))
			})
		})
	}
}

// TestAFloodOfPlacesEndsNoRest, nor what is under way.
func TestAFloodOfPlacesEndsNoRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		toRest(t, g, slow)
		pass, _ := g.Enter(t.Context(), fast)
		for i := range 2 * maxPlaces {
			visit(t, g, numbered(i), Bad)
		}
		g.check(t)
		_, out := g.Enter(t.Context(), slow)
		require.NotNil(t, out)
		require.Contains(t, out.Message, "a rest of 5s")
		require.Equal(t, 1, g.places.by[fast].underWay)
		pass.Leave(Good)
		g.check(t)
		require.Zero(t, g.all)
	})
}

// TestManyThatRestLeaveRoom: others are known long enough to be given a rest too.
func TestManyThatRestLeaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		for i := range maxPlaces {
			toRest(t, g, numbered(i))
		}
		for range least {
			visit(t, g, slow, Bad)
			for i := range maxPlaces / 4 {
				visit(t, g, numbered(maxPlaces+i), Good)
			}
		}
		g.check(t)
		_, out := g.Enter(t.Context(), slow)
		require.NotNil(t, out)
		require.False(t, g.known(numbered(0)), "of those that rest, the oldest is forgotten")
	})
}

// TestManyAtOnce: what is under way is always remembered, at the cost of what is not,
// and forgotten when there is too much of it and it ends.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		for i := range maxPlaces {
			visit(t, g, numbered(-1-i), Good)
		}
		var passes []*Pass
		for i := range maxPlaces + 100 {
			pass, _ := g.Enter(t.Context(), numbered(i))
			passes = append(passes, pass)
			require.LessOrEqual(t, len(g.places.by), max(maxPlaces, len(passes)))
		}
		g.check(t)
		require.Len(t, g.places.by, maxPlaces+100)
		for _, p := range passes {
			p.Leave(Good)
		}
		g.check(t)
		require.Len(t, g.places.by, maxPlaces)
	})
}

// TestAPlaceIsForgotten when nobody has asked about it for long, though it was given
// a rest.
func TestAPlaceIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		toRest(t, g, slow)
		visit(t, g, fast, Good)
		time.Sleep(memory / 2) //nolint:forbidigo // not real
		toRest(t, g, numbered(0))
		require.True(t, g.known(slow))
		require.Equal(t, firstRest, g.places.by[slow].rest)
		time.Sleep(memory / 2) //nolint:forbidigo // not real
		visit(t, g, numbered(1), Good)
		require.False(t, g.known(slow))
		require.False(t, g.known(fast))
		require.True(t, g.known(numbered(0)), "not so long ago")
		g.check(t)
	})
}

// TestNewPlacesAreCheap however many there are: a walk of all for each would take
// hundreds of times as long.
func TestNewPlacesAreCheap(t *testing.T) {
	t.Parallel()
	enter := func(g *Gate, n int) time.Duration {
		began := clock.Elapsed()
		for i := range n {
			pass, _ := g.Enter(t.Context(), numbered(maxPlaces+i))
			pass.Leave(Good)
		}
		return clock.Elapsed() - began
	}
	empty, full := newGate(Options{}), newGate(Options{})
	for i := range maxPlaces {
		toRest(t, full, numbered(i))
	}
	few := enter(empty, maxPlaces/2)
	require.Less(t, enter(full, 2*maxPlaces), 20*4*few+250*time.Millisecond)
	full.check(t)
}
