package gate

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

func numbered(i int) Destination { return Destination{Host: fmt.Sprint(i)} }

// TestNamespacesAreForgotten with their last destination.
func TestNamespacesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Slots: 10})
		for range 2 * maxStates {
			visit(t, g, Destination{Namespace: uuid.New(), Host: "a"}, Good)
		}
		g.check(t)
		require.Len(t, g.states.namespaces, maxStates)
	})
}

// visit makes one delivery.
func visit(t *testing.T, g *Gate, to Destination, r Result) {
	t.Helper()
	pass, out := g.Enter(t.Context(), to)
	require.Nil(t, out)
	pass.Leave(r)
}

// trip lets deliveries fail until the breaker opens.
func trip(t *testing.T, g *Gate, to Destination) {
	t.Helper()
	for range minResults {
		visit(t, g, to, Bad)
	}
}

// known reports whether the gate remembers a destination.
func (g *Gate) known(to Destination) bool { return g.states.byDestination[to] != nil }

// check that the lists and the map agree.
func (g *Gate) check(t *testing.T) {
	t.Helper()
	inUse, byNamespace := 0, map[uuid.UUID]int{}
	for to, s := range g.states.byDestination {
		require.Equal(t, to, s.destination)
		require.Same(t, g.states.namespaces[to.Namespace], s.namespace)
		byNamespace[to.Namespace]++
		if s.list == nil {
			require.Positive(t, s.inFlight)
			inUse++
		}
	}
	for id, ns := range g.states.namespaces {
		require.Equal(t, byNamespace[id], ns.states)
	}
	require.Len(t, g.states.namespaces, len(byNamespace))
	require.Len(t, g.states.byDestination, inUse+g.states.idle.Len()+g.states.open.Len())
	require.LessOrEqual(t, len(g.states.byDestination), max(maxStates, inUse))
}

// TestMemoryIsBounded, also if every breaker is open. The least recently used state goes first.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *Gate, Destination){
		"idle": func(t *testing.T, g *Gate, to Destination) { t.Helper(); visit(t, g, to, Good) },
		"open": trip,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGate(Options{})
				for i := range maxStates {
					use(t, g, numbered(i))
				}
				_, _ = g.Enter(t.Context(), numbered(0)) // makes it the most recently used
				for i := range maxStates / 2 {
					use(t, g, numbered(maxStates+i))
				}
				g.check(t)
				require.Len(t, g.states.byDestination, maxStates)
				require.True(t, g.known(numbered(0)))
				require.False(t, g.known(numbered(1)))
				require.True(t, g.known(numbered(maxStates-1)))
			})
		})
	}
}

// TestAFloodOfHostsClosesNoBreaker, and forgets no delivery in flight.
func TestAFloodOfHostsClosesNoBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		trip(t, g, slow)
		pass, _ := g.Enter(t.Context(), fast)
		for i := range 2 * maxStates {
			visit(t, g, numbered(i), Bad)
		}
		g.check(t)
		_, out := g.Enter(t.Context(), slow)
		require.NotNil(t, out)
		require.Contains(t, out.Message, "open for 5s")
		require.Equal(t, 1, g.states.byDestination[fast].inFlight)
		pass.Leave(Good)
		g.check(t)
		require.Zero(t, g.inUse)
	})
}

// TestManyOpenBreakersLeaveCapacity: other destinations are remembered long enough for their breakers
// to open too.
func TestManyOpenBreakersLeaveCapacity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		for i := range maxStates {
			trip(t, g, numbered(i))
		}
		for range minResults {
			visit(t, g, slow, Bad)
			for i := range maxStates / 4 {
				visit(t, g, numbered(maxStates+i), Good)
			}
		}
		g.check(t)
		_, out := g.Enter(t.Context(), slow)
		require.NotNil(t, out)
		require.False(t, g.known(numbered(0)), "of the open ones, the oldest is forgotten")
	})
}

// TestManyInFlight: destinations in use are always remembered, at the cost of unused ones. Once their
// deliveries end, those over the limit are forgotten.
func TestManyInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		for i := range maxStates {
			visit(t, g, numbered(-1-i), Good)
		}
		var passes []*Pass
		for i := range maxStates + 100 {
			pass, _ := g.Enter(t.Context(), numbered(i))
			passes = append(passes, pass)
			require.LessOrEqual(t, len(g.states.byDestination), max(maxStates, len(passes)))
		}
		g.check(t)
		require.Len(t, g.states.byDestination, maxStates+100)
		for _, p := range passes {
			p.Leave(Good)
		}
		g.check(t)
		require.Len(t, g.states.byDestination, maxStates)
	})
}

// TestUnusedStatesAreForgotten after idleTTL, even if their breaker is open.
func TestUnusedStatesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		trip(t, g, slow)
		visit(t, g, fast, Good)
		time.Sleep(idleTTL / 2) //nolint:forbidigo // virtual
		trip(t, g, numbered(0))
		require.True(t, g.known(slow))
		require.Equal(t, firstCooldown, g.states.byDestination[slow].cooldown)
		time.Sleep(idleTTL / 2) //nolint:forbidigo // virtual
		visit(t, g, numbered(1), Good)
		require.False(t, g.known(slow))
		require.False(t, g.known(fast))
		require.True(t, g.known(numbered(0)), "it was used more recently")
		g.check(t)
	})
}

// TestNewDestinationsAreCheap, however many there are. A walk through all of them for each new one
// would take hundreds of times as long.
func TestNewDestinationsAreCheap(t *testing.T) {
	t.Parallel()
	enter := func(g *Gate, n int) time.Duration {
		began := clock.Elapsed()
		for i := range n {
			pass, _ := g.Enter(t.Context(), numbered(maxStates+i))
			pass.Leave(Good)
		}
		return clock.Elapsed() - began
	}
	empty, full := newGate(Options{}), newGate(Options{})
	for i := range maxStates {
		trip(t, full, numbered(i))
	}
	few := enter(empty, maxStates/2)
	require.Less(t, enter(full, 2*maxStates), 20*4*few+250*time.Millisecond)
	full.check(t)
}
