package amqp_test

import (
	"fmt"
	"sync"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// exchanges creates exchanges that route to a queue and returns them as settings of a target.
func exchanges(t *testing.T, n int) []string {
	t.Helper()
	ch := openChannel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	var all []string
	for i := range n {
		name := fmt.Sprintf("e-%s-%d", q.Name, i)
		require.NoError(t, ch.ExchangeDeclare(name, amqp091.ExchangeFanout, false, true, false, false, nil))
		require.NoError(t, ch.QueueBind(q.Name, "", name, false, nil))
		all = append(all, fmt.Sprintf(`, "exchange": %q, "routing_key": "x"`, name))
	}
	return all
}

// With more exchanges than a connection may have channels, deliveries wait for each other, and none fails.
func TestMoreExchangesThanChannels(t *testing.T) {
	t.Parallel()
	const most, n = 4, 20
	proxy, target := newSilent(t), newTarget(t, "127.0.0.0/8")
	proxy.most.Store(most)
	var all sync.WaitGroup
	for _, to := range exchanges(t, n) {
		for range 2 {
			all.Go(func() {
				for range 10 {
					if out := target.Deliver(t.Context(), attempt(proxy.address(), to)); out.Kind != job.Succeeded {
						t.Errorf("%+v", out)
					}
				}
			})
		}
	}
	all.Wait()
	require.Greater(t, proxy.opened.Load(), int32(n)-1)
}

// Only the least recently used channel is replaced.
func TestOneChannelMakesRoom(t *testing.T) {
	t.Parallel()
	const most = 4
	proxy, target := newSilent(t), newTarget(t, "127.0.0.0/8")
	proxy.most.Store(most)
	to := exchanges(t, most+1)
	deliver := func(which ...int) {
		for _, i := range which {
			out := target.Deliver(t.Context(), attempt(proxy.address(), to[i]))
			require.Equal(t, job.Succeeded, out.Kind, "%+v", out)
		}
	}
	deliver(0, 1, 2, 3, 0)
	require.EqualValues(t, most, proxy.opened.Load())
	deliver(4) // replaces 1
	deliver(2, 3, 0, 4)
	require.EqualValues(t, most+1, proxy.opened.Load())
	deliver(1)
	require.EqualValues(t, most+2, proxy.opened.Load())
}

// A delivery without a slot waits no longer than its timeout, and is known not to be sent.
func TestNoPlaceForAChannel(t *testing.T) {
	t.Parallel()
	const most = 4
	proxy, target := newSilent(t), newTarget(t, "127.0.0.0/8")
	proxy.most.Store(most)
	to := exchanges(t, most+1)
	var attempts []job.Attempt
	for _, e := range to {
		attempts = append(attempts, hasty(proxy.address(), e, "1"))
	}
	for _, out := range deliverAll(t, target, attempts[:most]...) {
		require.Equal(t, job.Succeeded, out.Kind, "%+v", out)
	}
	proxy.keepsAll.Store(true)
	outs := deliverAll(t, target, attempts...)
	for _, out := range outs {
		require.Equal(t, job.Failed, out.Kind, "%+v", out)
		require.True(t, out.Retryable)
	}
	require.False(t, outs[most].Unknown, "%+v", outs[most])
}

// A delivery that finds its channel closed is known not to be sent.
func TestPublishedToAClosedChannel(t *testing.T) {
	t.Parallel()
	u, target := address(t), newTarget(t, "127.0.0.0/8")
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			out := target.Deliver(t.Context(), attempt(u.Host, `, "exchange": "none", "routing_key": "x"`))
			if out.Kind != job.Failed || out.Unknown {
				t.Errorf("%+v", out)
			}
		})
	}
	all.Wait()
	out := target.Deliver(t.Context(), attempt(u.Host, `, "routing_key": "none"`))
	require.Contains(t, out.Message, "no queue is bound", "the broker works, so its breaker stays closed")
}
