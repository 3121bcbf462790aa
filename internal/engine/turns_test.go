package engine

import (
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestCompletionsTakeTurns: the outcomes of a namespace wait for few of another one that has many.
func TestCompletionsTakeTurns(t *testing.T) {
	t.Parallel()
	q := newTurns[job.Completion](2000, 100)
	many, few := uuid.New(), uuid.New()
	for range 1000 {
		q.put(many, job.Completion{Queue: 1})
	}
	require.Len(t, q.take(q.most, nil), 100, "a namespace alone gets whole batches")
	for range 30 {
		q.put(few, job.Completion{Queue: 2})
	}
	of := func(batch []job.Completion) (n [3]int) {
		for _, c := range batch {
			n[c.Queue]++
		}
		return n
	}
	for range 3 {
		require.Equal(t, [3]int{0, 10, 10}, of(q.take(q.most, nil)))
	}
	require.Equal(t, [3]int{0, 100, 0}, of(q.take(q.most, nil)))
	for n := 770; n > 0; n -= 100 {
		require.Len(t, q.take(q.most, nil), min(n, 100))
	}
	require.Empty(t, q.take(q.most, nil))
	require.Zero(t, q.share.Used())
	require.False(t, q.drained())
	q.close()
	require.True(t, q.drained())
}

// TestCompletionsAreLimited: a namespace waits when it has its share of the queue, and others do not.
func TestCompletionsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testCompletionsAreLimited)
}

func testCompletionsAreLimited(t *testing.T) {
	q := newTurns[job.Completion](10, 10)
	many := uuid.New()
	for range 8 {
		q.put(many, job.Completion{Queue: 1})
	}
	put := make(chan struct{})
	go func() {
		q.put(many, job.Completion{Queue: 2})
		close(put)
	}()
	synctest.Wait() // until it waits
	q.put(uuid.New(), job.Completion{Queue: 3})
	require.EqualValues(t, 9, q.share.Used(), "it has no more than its share")
	var queues []int32
	for len(queues) < 10 {
		<-q.added
		for _, c := range q.take(q.most, nil) {
			queues = append(queues, c.Queue)
		}
	}
	<-put
	require.Contains(t, queues, int32(2))
	require.Contains(t, queues, int32(3))
}
