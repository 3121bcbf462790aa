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

// full is a queue in which so many polls wait for all handlers that it takes.
func full(t *testing.T, polls int) *queue {
	t.Helper()
	q := newQueue(New(Options{}), 1)
	for i := range polls {
		_, err := q.enter(pollOf(i % (maxHandlers / job.MaxHandlers)))
		require.NoError(t, err)
	}
	return q
}

func pollOf(n int) *waiter {
	w := &waiter{seeker: job.Poll{Session: uuid.New(), Max: 1}, got: make(chan answer, 1)}
	for i := range job.MaxHandlers {
		w.seeker.Handlers = append(w.seeker.Handlers, fmt.Sprintf("h%d-%d", n, i))
	}
	return w
}

// A poll that is refused costs what it names, however many wait: the others of the
// node wait for it. Not parallel, for it counts allocations and time.
func TestARefusedPollCostsLittle(t *testing.T) {
	cost := func(q *queue) (least time.Duration) {
		least = time.Hour
		w := pollOf(maxHandlers)
		for range 20 {
			begin := clock.Elapsed()
			_, err := q.enter(w)
			least = min(least, clock.Elapsed()-begin)
			require.ErrorIs(t, err, job.ErrTooManyHandlers)
		}
		require.Less(t, testing.AllocsPerRun(10, func() { _, _ = q.enter(w) }), 100.0, "it makes nothing of what it names")
		return least
	}
	few, many := cost(full(t, 20)), cost(full(t, 2000))
	t.Log("a refused poll takes", few, "with 20 that wait, and", many, "with 2,000")
	require.Less(t, many, 3*few+time.Millisecond)
}

// Those that left make room, each time, and what others wait for stays.
func TestHandlersThatNobodyWaitsForMakeRoom(t *testing.T) {
	t.Parallel()
	q := full(t, maxHandlers/job.MaxHandlers-1)
	again := pollOf(0) // two wait for these
	_, err := q.enter(again)
	require.NoError(t, err)
	require.True(t, q.leave(again))
	for i := range 10 {
		w := pollOf(maxHandlers + i)
		_, err := q.enter(w)
		require.NoError(t, err)
		require.Equal(t, maxHandlers*(job.MaxPriority+1), q.known())
		_, err = q.enter(pollOf(2*maxHandlers + i))
		require.ErrorIs(t, err, job.ErrTooManyHandlers)
		require.True(t, q.leave(w))
	}
	for i := range maxHandlers/job.MaxHandlers - 1 {
		for _, h := range pollOf(i).seeker.Handlers {
			require.NotNil(t, q.lanes[laneKey{h, 0}])
		}
	}
	require.Len(t, q.awaited(), maxHandlers-job.MaxHandlers)
	require.Equal(t, maxHandlers/job.MaxHandlers-1, q.dismiss())
	require.Empty(t, q.awaited())
}
