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

var slow, fast = Place{Host: "https://slow"}, Place{Host: "https://fast"}

// newGate is one whose time is that of the test.
func newGate(o Options) *Gate {
	g, began := New(o), clock.Now()
	g.now = func() time.Duration { return clock.Now().Sub(began) }
	return g
}

// fill enters until it is told to come again, and returns the passes.
func fill(t *testing.T, g *Gate, to Place, most int) (passes []*Pass, deferred *job.Outcome) {
	t.Helper()
	for range most {
		pass, out := g.Enter(t.Context(), to)
		if out != nil {
			return passes, out
		}
		passes = append(passes, pass)
	}
	return passes, nil
}

// TestASlowPlaceLeavesSlots: one has two thirds, two have two fifths each, and
// there is always room for another.
func TestASlowPlaceLeavesSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Slots: 1000})
		one, out := fill(t, g, slow, 1000)
		require.InDelta(t, 667, len(one), 1)
		require.Equal(t, job.Deferred, out.Kind)
		require.Contains(t, out.Message, "https://slow has 66")
		two, _ := fill(t, g, Place{Host: "https://slow2"}, 1000)
		require.InDelta(t, 222, len(two), 1, "of what the first has left")
		three, out := fill(t, g, fast, 50)
		require.Nil(t, out)
		require.Len(t, three, 50)
		// Another namespace's is another place.
		four, _ := fill(t, g, Place{Namespace: uuid.New(), Host: slow.Host}, 10)
		require.Len(t, four, 10)
		for _, p := range append(append(append(one, two...), three...), four...) {
			p.Leave(Good)
		}
		require.Zero(t, g.all)
	})
}

func TestPerPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{PerPlace: 3})
		passes, out := fill(t, g, slow, 10)
		require.Len(t, passes, 3)
		require.NotNil(t, out)
		passes[0].Leave(Good)
		more, _ := fill(t, g, slow, 10)
		require.Len(t, more, 1)
	})
}

// TestAFastPlaceIsWaitedFor: a burst to a place that answers at once is deferred
// by nothing, though it has not enough room for all.
func TestAFastPlaceIsWaitedFor(t *testing.T) {
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
				time.Sleep(5 * time.Millisecond) //nolint:forbidigo // the time of this test is not real
				pass.Leave(Good)
			})
		}
		all.Wait()
		require.Zero(t, g.all)
	})
}

// TestDeferredComeBackAtThePace: those that are deferred are spread over the time
// that the place needs for them.
func TestDeferredComeBackAtThePace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{PerPlace: 10})
		passes, _ := fill(t, g, slow, 10)
		time.Sleep(10 * time.Second) //nolint:forbidigo // not real
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
		require.InDelta(t, 40, last.Seconds(), 15, "40 that take about 10 s, 10 at a time")
		for range 100_000 {
			_, out := g.Enter(t.Context(), slow)
			require.LessOrEqual(t, out.RetryAfter, maxDelay+together)
		}
	})
}

// TestWaitingEnds: when it takes too long after all, and when the node stops.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{PerPlace: 1})
		pass, _ := g.Enter(t.Context(), slow)
		began := g.now()
		_, out := g.Enter(t.Context(), slow) // nothing is known yet, so it waits
		require.Equal(t, job.Deferred, out.Kind)
		require.Equal(t, moment, g.now()-began)
		_, out = g.Enter(t.Context(), slow)
		require.Equal(t, job.Deferred, out.Kind)
		require.Equal(t, moment, g.now()-began, "now it is known")
		require.Equal(t, 1, g.all)
		pass.Leave(Good)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		pass, _ = g.Enter(ctx, Place{Host: "other"})
		_, out = g.Enter(ctx, Place{Host: "other"})
		require.Equal(t, job.Deferred, out.Kind)
		pass.Leave(Neutral)
		require.Zero(t, g.all)
	})
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{})
		do := func(r Result) *job.Outcome {
			pass, out := g.Enter(t.Context(), slow)
			if out == nil {
				pass.Leave(r)
			}
			return out
		}
		for range 9 {
			require.Nil(t, do(Bad))
		}
		for range 5 {
			require.Nil(t, do(Neutral))
		}
		require.Nil(t, do(Bad), "the tenth")
		out := do(Good)
		require.Equal(t, job.Deferred, out.Kind, "it rests")
		require.Contains(t, out.Message, "a rest of 5s")
		require.InDelta(t, 5, out.RetryAfter.Seconds(), 0.4)
		require.Nil(t, func() *job.Outcome { pass, out := g.Enter(t.Context(), fast); pass.Leave(Good); return out }(), "others do not")

		time.Sleep(firstRest) //nolint:forbidigo // not real
		trial, out := g.Enter(t.Context(), slow)
		require.Nil(t, out, "one tries")
		require.NotNil(t, do(Good), "one alone")
		trial.Leave(Bad)
		out = do(Good)
		require.Contains(t, out.Message, "a rest of 10s")
		for range 10 {
			time.Sleep(maxRest) //nolint:forbidigo // not real
			require.Nil(t, do(Bad))
		}
		require.Contains(t, do(Good).Message, "a rest of 1m0s", "and no longer")
		time.Sleep(maxRest) //nolint:forbidigo // not real
		require.Nil(t, do(Neutral), "which says nothing")
		require.Nil(t, do(Good))
		for range 100 {
			require.Nil(t, do(Good))
		}
		// One in four that works keeps it closed.
		for i := range 100 {
			r := Bad
			if i%4 == 0 {
				r = Good
			}
			require.Nil(t, do(r), fmt.Sprint(i))
		}
	})
}
