package pull

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/loop"
)

// The loop of a queue ends a while after its last poll, and the node forgets the queue.
func TestAQueueWithoutPollsIsForgotten(t *testing.T) {
	t.Parallel()
	p := New(Options{})
	q := newQueue(p, uuid.Nil, 1)
	p.queues[q.id] = q
	poll := pollOf(0)
	_, err := q.enter(poll)
	require.NoError(t, err)
	q.claimable = false // nothing is due
	idle := func() {
		t.Helper()
		pause, err := q.serveOnce(t.Context())
		require.NoError(t, err)
		require.Equal(t, keepQueue, pause)
		require.Contains(t, p.queues, q.id)
	}
	idle()
	q.served = clock.Elapsed() - keepQueue
	idle() // a poll waits
	require.True(t, q.leave(poll))
	q.served = clock.Elapsed()
	idle() // not long enough
	q.served = clock.Elapsed() - keepQueue
	_, err = q.serveOnce(t.Context())
	require.ErrorIs(t, err, loop.ErrDone)
	require.Empty(t, p.queues)
}
