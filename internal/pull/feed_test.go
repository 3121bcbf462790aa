package pull

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// fullPolls is how many polls with different handlers fill a queue.
const fullPolls = maxHandlers / job.MaxHandlers

// queueWith returns a queue with n polls. If n is at least fullPolls, it has all the handlers it can have.
func queueWith(t *testing.T, n int) *queue {
	t.Helper()
	q := newQueue(New(Options{}), uuid.Nil, 1)
	for i := range n {
		_, err := q.enter(pollOf(i % fullPolls))
		require.NoError(t, err)
	}
	return q
}

// pollOf returns a poll for the n-th set of handlers.
func pollOf(n int) *longPoll {
	p := &longPoll{Poll: job.Poll{Session: uuid.New(), Max: 1}, reply: make(chan reply, 1)}
	for i := range job.MaxHandlers {
		p.Handlers = append(p.Handlers, fmt.Sprintf("h%d-%d", n, i))
	}
	return p
}

// All other polls of the node wait while one is rejected, so its cost must not depend on how many wait. Not
// parallel, because it measures allocations and time.
func TestRejectingAPollIsCheap(t *testing.T) {
	cost := func(q *queue) (least time.Duration) {
		least = time.Hour
		p := pollOf(maxHandlers)
		for range 20 {
			begin := clock.Elapsed()
			_, err := q.enter(p)
			least = min(least, clock.Elapsed()-begin)
			require.ErrorIs(t, err, job.ErrTooManyHandlers)
		}
		allocations := testing.AllocsPerRun(10, func() { _, _ = q.enter(p) })
		require.Less(t, allocations, 100.0, "it creates no feeds")
		return least
	}
	few, many := cost(queueWith(t, 20)), cost(queueWith(t, 2000))
	t.Log("rejecting a poll takes", few, "while 20 wait, and", many, "while 2,000 wait")
	require.Less(t, many, 3*few+time.Millisecond)
}

// Each poll that leaves frees capacity for new handlers. Handlers of other polls stay.
func TestHandlersWithoutPollsAreForgotten(t *testing.T) {
	t.Parallel()
	q := queueWith(t, fullPolls-1)
	again := pollOf(0) // now two polls wait for these handlers
	_, err := q.enter(again)
	require.NoError(t, err)
	require.True(t, q.leave(again))
	for i := range 10 {
		p := pollOf(maxHandlers + i)
		_, err := q.enter(p)
		require.NoError(t, err)
		require.Equal(t, maxHandlers*(job.MaxPriority+1), q.feedCount())
		_, err = q.enter(pollOf(2*maxHandlers + i))
		require.ErrorIs(t, err, job.ErrTooManyHandlers)
		require.True(t, q.leave(p))
	}
	for i := range fullPolls - 1 {
		for _, h := range pollOf(i).Handlers {
			require.NotNil(t, q.feeds[feedKey{h, 0}])
		}
	}
	require.Len(t, q.awaited(), maxHandlers-job.MaxHandlers)
	require.Equal(t, fullPolls-1, q.dismiss())
	require.Empty(t, q.awaited())
}
