package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

var slow, fast = Destination{Host: "https://slow"}, Destination{Host: "https://fast"}

// newGate creates a gate that uses the clock of the test.
func newGate(o Options) *Gate {
	g, began := New(o), clock.Now()
	g.now = func() time.Duration { return clock.Now().Sub(began) }
	return g
}

// fill enters up to limit times, until a delivery is deferred, and returns the passes.
func fill(t *testing.T, g *Gate, to Destination, limit int) (passes []*Pass, deferred *job.Outcome) {
	t.Helper()
	for range limit {
		pass, out := g.Enter(t.Context(), to)
		if out != nil {
			return passes, out
		}
		passes = append(passes, pass)
	}
	return passes, nil
}

// TestASlowHostLeavesSlots: one slow host gets three fifths, and several leave some for other hosts of their namespace.
func TestASlowHostLeavesSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Slots: 1000})
		all, out := fill(t, g, slow, 1000)
		require.InDelta(t, 600, len(all), 1)
		require.Equal(t, job.Deferred, out.Kind)
		require.Contains(t, out.Message, "https://slow has 60")
		for i, want := range []int{150, 38, 9} {
			more, _ := fill(t, g, numbered(i), 1000)
			require.InDelta(t, want, len(more), 1, "three quarters of what the namespace may still start")
			all = append(all, more...)
		}
		more, _ := fill(t, g, fast, 2)
		require.Len(t, more, 2)
		// The same host in another namespace is another destination.
		other, _ := fill(t, g, Destination{Namespace: uuid.New(), Host: slow.Host}, 50)
		require.Len(t, other, 50)
		for _, p := range slices.Concat(all, more, other) {
			p.Leave(Good)
		}
		require.Zero(t, g.inUse)
	})
}

// TestANamespaceLeavesSlots: however many silent hosts a namespace has, others find slots, and get as many as it has
// when it returns them.
func TestANamespaceLeavesSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		g := newGate(Options{Slots: size})
		attacker, victim := uuid.New(), uuid.New()
		var passes []*Pass
		var deferred *job.Outcome
		for range 3 {
			for i := range 2 * size {
				pass, out := g.Enter(t.Context(), Destination{Namespace: attacker, Host: fmt.Sprint(i)})
				if out != nil {
					deferred = out
					continue
				}
				passes = append(passes, pass)
			}
		}
		require.InDelta(t, size*4/5, len(passes), 1, "alone it gets most")
		require.Equal(t, job.Deferred, deferred.Kind)
		require.Contains(t, deferred.Message, "the namespace has 800 deliveries in flight")
		require.LessOrEqual(t, deferred.RetryAfter, maxDelay+batch)

		others, _ := fill(t, g, Destination{Namespace: victim, Host: "https://a"}, size)
		require.InDelta(t, size/5*3/5, len(others), 1)
		more, _ := fill(t, g, Destination{Namespace: victim, Host: "https://b"}, size)
		require.NotEmpty(t, more)
		third, _ := fill(t, g, Destination{Namespace: uuid.New(), Host: "https://c"}, size)
		require.NotEmpty(t, third)

		for _, p := range passes[size/5:] {
			p.Leave(Good)
		}
		again, _ := fill(t, g, Destination{Namespace: victim, Host: "https://b"}, size)
		require.Greater(t, len(others)+len(more)+len(again), size/5, "it shrinks when others come")
		for _, p := range slices.Concat(passes[:size/5], others, more, third, again) {
			p.Leave(Good)
		}
		require.Zero(t, g.inUse)
		for _, ns := range g.states.namespaces {
			require.Zero(t, ns.inFlight)
		}
	})
}

// TestAFullNamespaceReturnsAtItsPace: deliveries to hosts that the gate has not seen for long are deferred by the pace
// of the namespace, not by the silence of the host.
func TestAFullNamespaceReturnsAtItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Slots: 100})
		visit(t, g, fast, Good)
		time.Sleep(idleTTL / 2) //nolint:forbidigo // virtual
		for i := 0; ; i++ {
			if _, out := g.Enter(t.Context(), numbered(i)); out != nil {
				break
			}
		}
		_, out := g.Enter(t.Context(), fast)
		require.Equal(t, job.Deferred, out.Kind)
		require.Less(t, out.RetryAfter, time.Second)
	})
}

func TestPerHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{PerHost: 3})
		passes, out := fill(t, g, slow, 10)
		require.Len(t, passes, 3)
		require.NotNil(t, out)
		passes[0].Leave(Good)
		more, _ := fill(t, g, slow, 10)
		require.Len(t, more, 1)
	})
}

// TestABurstToAFastHostWaits: no delivery of a burst to a fast host is deferred, although the host
// does not have capacity for all of them at once.
func TestABurstToAFastHostWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Slots: 100})
		var all sync.WaitGroup
		for range 90 {
			all.Go(func() {
				pass, out := g.Enter(t.Context(), fast)
				if out != nil {
					t.Errorf("deferred: %+v", out)
					return
				}
				time.Sleep(5 * time.Millisecond) //nolint:forbidigo // the time of this test is virtual
				pass.Leave(Good)
			})
		}
		all.Wait()
		require.Zero(t, g.inUse)
	})
}

// TestDeferredReturnAtThePace: deferred deliveries are spread over the time that the host needs for them.
func TestDeferredReturnAtThePace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{PerHost: 10})
		passes, _ := fill(t, g, slow, 10)
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual
		for _, p := range passes {
			p.Leave(Good)
		}
		passes, _ = fill(t, g, slow, 10)
		require.Len(t, passes, 10)
		var last time.Duration
		for range 40 {
			_, out := g.Enter(t.Context(), slow)
			require.GreaterOrEqual(t, out.RetryAfter, last)
			last = out.RetryAfter
		}
		require.InDelta(t, 40, last.Seconds(), 15, "40 deliveries that take about 10 s, 10 at a time")
		for range 100_000 {
			_, out := g.Enter(t.Context(), slow)
			require.LessOrEqual(t, out.RetryAfter, maxDelay+batch)
		}
	})
}

// TestWaitingEnds after maxWait, and when the node stops.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{PerHost: 1})
		pass, _ := g.Enter(t.Context(), slow)
		began := g.now()
		_, out := g.Enter(t.Context(), slow) // no delivery has ended yet, so it waits
		require.Equal(t, job.Deferred, out.Kind)
		require.Equal(t, maxWait, g.now()-began)
		_, out = g.Enter(t.Context(), slow)
		require.Equal(t, job.Deferred, out.Kind)
		require.Equal(t, maxWait, g.now()-began, "the wait is now expected to be long")
		require.Equal(t, 1, g.inUse)
		pass.Leave(Good)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		pass, _ = g.Enter(ctx, Destination{Host: "other"})
		_, out = g.Enter(ctx, Destination{Host: "other"})
		require.Equal(t, job.Deferred, out.Kind)
		pass.Leave(Neutral)
		require.Zero(t, g.inUse)
	})
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		deliver := func(to Destination, r Result) *job.Outcome {
			pass, out := g.Enter(t.Context(), to)
			if out == nil {
				pass.Leave(r)
			}
			return out
		}
		do := func(r Result) *job.Outcome { return deliver(slow, r) }
		for range 9 {
			require.Nil(t, do(Bad))
		}
		for range 5 {
			require.Nil(t, do(Neutral))
		}
		require.Nil(t, do(Bad), "the tenth")
		out := do(Good)
		require.Equal(t, job.Deferred, out.Kind, "the breaker is open")
		require.Contains(t, out.Message, "open for 5s")
		require.InDelta(t, 5, out.RetryAfter.Seconds(), 0.4)
		require.Nil(t, deliver(fast, Good), "others are not deferred")

		time.Sleep(firstCooldown) //nolint:forbidigo // virtual
		probe, out := g.Enter(t.Context(), slow)
		require.Nil(t, out, "one delivery probes the host")
		require.NotNil(t, do(Good), "only one")
		probe.Leave(Bad)
		out = do(Good)
		require.Contains(t, out.Message, "open for 10s")
		for range 10 {
			time.Sleep(maxCooldown) //nolint:forbidigo // virtual
			require.Nil(t, do(Bad))
		}
		require.Contains(t, do(Good).Message, "open for 1m0s", "the maximum")
		time.Sleep(maxCooldown) //nolint:forbidigo // virtual
		require.Nil(t, do(Neutral), "a neutral probe changes nothing")
		require.Nil(t, do(Good))
		for range 100 {
			require.Nil(t, do(Good))
		}
		// One good result in four keeps the breaker closed.
		for i := range 100 {
			r := Bad
			if i%4 == 0 {
				r = Good
			}
			require.Nil(t, do(r), fmt.Sprint(i))
		}
	})
}
