package gate

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestShared: namespaces share a strict limit. Deliveries over the share of a namespace return at its pace, and those
// that find nothing left return at the pace of all.
func TestShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Shared: 16})
		first, second := Destination{Namespace: uuid.New()}, Destination{Namespace: uuid.New()}
		a, _ := fill(t, g, first, 20)
		require.Len(t, a, 12)
		require.False(t, g.Full())
		time.Sleep(12 * time.Second) //nolint:forbidigo // virtual
		_, out := g.Enter(t.Context(), first)
		require.InDelta(t, time.Second, out.RetryAfter, float64(minDelay+batch), "one of 12 in 12 s")
		b, _ := fill(t, g, second, 20)
		require.Len(t, b, 3)
		c, out := fill(t, g, Destination{Namespace: uuid.New()}, 20)
		require.Len(t, c, 1)
		require.True(t, g.Full())
		require.InDelta(t, 750*time.Millisecond, out.RetryAfter, float64(minDelay+batch), "one of 16 in 12 s")
		_, out = g.Enter(t.Context(), Destination{Namespace: uuid.New()})
		require.NotNil(t, out, "one that has nothing gets one only if one is left")
		for _, p := range slices.Concat(a[1:], b, c) {
			p.Leave(Neutral)
		}
		d, _ := fill(t, g, second, 20)
		require.Len(t, d, 12, "it has less than a share, and the first still has one")
		for _, p := range append(d, a[0]) {
			p.Leave(Neutral)
		}
		require.Zero(t, g.all.inFlight)
	})
}

// TestAReturnedSlotIsHandedOn: to a waiter of the namespace that has the fewest in flight, whoever returns it.
func TestAReturnedSlotIsHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Shared: 2})
		first, second := Destination{Namespace: uuid.New()}, Destination{Namespace: uuid.New()}
		third := Destination{Namespace: uuid.New()}
		a, _ := g.Enter(t.Context(), first)
		b, _ := g.Enter(t.Context(), second)
		got := make(chan *Pass, 3)
		for _, to := range []Destination{first, first, third} {
			go func() {
				pass, _ := g.Enter(t.Context(), to)
				got <- pass
			}()
			synctest.Wait()
		}
		b.Leave(Neutral)
		c := <-got
		require.NotNil(t, c)
		require.Equal(t, third, c.state.destination)
		require.Nil(t, <-got, "two namespaces have one each")
		require.Nil(t, <-got)
		require.Empty(t, g.waiting)
		a.Leave(Neutral)
		c.Leave(Neutral)
		require.Zero(t, g.inUse)
		require.Zero(t, g.all.inFlight)
	})
}

// TestSharedReturnAtThePaceOfAll: a namespace with long deliveries returns at the pace at which others return slots, and
// does not wait behind what they have deferred.
func TestSharedReturnAtThePaceOfAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(Options{Shared: 16})
		quick, long := Destination{Namespace: uuid.New()}, Destination{Namespace: uuid.New()}
		a, _ := fill(t, g, quick, 20)
		b, _ := fill(t, g, long, 20)
		require.Len(t, b, 3)
		time.Sleep(12 * time.Second) //nolint:forbidigo // virtual
		a[0].Leave(Neutral)
		for range 2 {
			c, _ := fill(t, g, Destination{Namespace: uuid.New()}, 1)
			require.Len(t, c, 1)
		}
		require.True(t, g.Full())
		for range 1000 {
			_, out := g.Enter(t.Context(), quick)
			require.NotNil(t, out)
		}
		_, out := g.Enter(t.Context(), long)
		require.Less(t, out.RetryAfter, time.Second, "its own pace is one of 3 in 12 s")
	})
}
