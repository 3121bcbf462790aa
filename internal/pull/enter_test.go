package pull

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// TestAQueueDoesNotKeepOthersWaiting: while one is locked, polls of other queues are accepted.
func TestAQueueDoesNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	p := New(Options{})
	p.scanning = true
	busy, other := job.WorkerSession{Queue: 1, Namespace: uuid.New()}, job.WorkerSession{Queue: 2, Namespace: uuid.New()}
	for _, w := range []job.WorkerSession{busy, other} {
		p.queueOf(w).serving = true // without a loop
	}
	enter := func(w job.WorkerSession) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := p.enter(w, pollOf(0))
			done <- err
		}()
		return done
	}
	q := p.queueOf(busy)
	q.mu.Lock()
	first := enter(busy)
	require.Eventually(t, func() bool { return p.polls.Used() == 1 }, time.Minute, time.Millisecond)
	select {
	case err := <-enter(other):
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the poll of another queue waits")
	}
	q.mu.Unlock()
	require.NoError(t, <-first)
	p.Stop()
	require.Zero(t, p.polls.Used())
}

// TestAClosedQueueTakesNoPoll: a poll that found the queue before it was closed gets another one, or none if the node
// is stopping.
func TestAClosedQueueTakesNoPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Store: expiredStore{}, Bound: &clock.Bound{}})
		p.scanning = true
		w := job.WorkerSession{Queue: 1}
		old := p.queueOf(w)
		require.True(t, old.end())
		require.Empty(t, p.queues)
		p.queues[w.Queue] = old // a poll that is faster than its removal
		poll := pollOf(0)
		q, err := p.enter(w, poll)
		require.NoError(t, err)
		require.NotSame(t, old, q)
		require.Same(t, q, p.queueOf(w))
		require.Empty(t, old.polls)
		require.ErrorIs(t, (<-poll.reply).err, job.ErrSessionExpired, "the new queue has a loop")
		p.Stop()
		e, err := q.enter(pollOf(1))
		require.NoError(t, err)
		require.True(t, e.closed)
		q, err = p.enter(w, pollOf(2))
		require.NoError(t, err)
		require.Nil(t, q)
		<-time.After(3 * keepQueue) // until the loop has ended
		require.Zero(t, p.polls.Used())
	})
}

// Polls of the queue wait while blocked runs are chosen, so the cost must not depend on how many of them no poll can
// take. Not parallel, because it measures time.
func TestChoosingBlockedRunsIsCheap(t *testing.T) {
	known := map[string]bool{}
	for i := range maxPolls {
		for _, h := range pollOf(i).Handlers {
			known[h] = true
		}
	}
	cost := func(handler string, want int) (least time.Duration) {
		q := newQueue(New(Options{}), uuid.Nil, 1)
		for i := range maxBlocked {
			q.block(blockedRun{due: job.Due{Handler: handler, Key: job.Key{Job: uuid.New(), Seq: int16(i)}}})
		}
		least = time.Hour
		skip := q.skipped()
		for range 5 {
			begin := clock.Elapsed()
			got := q.retryBlocked(skip, known)
			least = min(least, clock.Elapsed()-begin)
			require.Len(t, got, want)
		}
		return least
	}
	some, none := cost(fmt.Sprintf("h%d-%d", 3, 0), maxAdmits), cost("h3-x", 0)
	t.Log("choosing takes", some, "if a poll knows the handler, and", none, "if none does")
	require.Less(t, none, 3*some+10*time.Millisecond)
}
