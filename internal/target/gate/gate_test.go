package gate

import (
	"context"
	"fmt"
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

// TestASlowHostLeavesSlots: one slow host gets two thirds, two get two fifths each, and there is
// always capacity for another.
func TestASlowHostLeavesSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Slots: 1000})
		one, out := fill(t, g, slow, 1000)
		require.InDelta(t, 667, len(one), 1)
		require.Equal(t, job.Deferred, out.Kind)
		require.Contains(t, out.Message, "https://slow has 66")
		two, _ := fill(t, g, Destination{Host: "https://slow2"}, 1000)
		require.InDelta(t, 222, len(two), 1, "of what the first left free")
		three, out := fill(t, g, fast, 50)
		require.Nil(t, out)
		require.Len(t, three, 50)
		// The same host in another namespace is another destination.
		four, _ := fill(t, g, Destination{Namespace: uuid.New(), Host: slow.Host}, 10)
		require.Len(t, four, 10)
		for _, p := range append(append(append(one, two...), three...), four...) {
			p.Leave(Good)
		}
		require.Zero(t, g.inUse)
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
