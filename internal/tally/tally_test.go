package tally_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/tally"
)

var start = time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)

// rowsBy returns the rows of a tally by namespace, queue and minute.
func rowsBy(t *testing.T, c *tally.Tally) (map[job.StatKey]job.Stat, func()) {
	t.Helper()
	rows, done := c.Rows()
	out := map[job.StatKey]job.Stat{}
	for _, r := range rows {
		_, twice := out[r.StatKey]
		require.False(t, twice)
		out[r.StatKey] = r.Stat
	}
	return out, done
}

func TestTallyByMinuteQueueAndNamespace(t *testing.T) {
	t.Parallel()
	now := start
	c := tally.New(func() time.Time { return now })
	red, blue := uuid.New(), uuid.New()
	c.Started(1, time.Millisecond)
	c.Entered(1, job.EndedSucceeded, job.ReasonNone, 5)
	c.Entered(2, job.EndedFailed, job.ReasonAttempts, 2)
	c.Entered(3, job.EndedSkipped, job.ReasonMissed, 7)
	c.Skipped(blue, job.ReasonMissed, 3)
	require.Equal(t, []int32{1, 2, 3}, c.Unknown())
	c.Learn(map[int32]uuid.UUID{1: red, 2: red, 3: blue})
	require.Empty(t, c.Unknown())
	rows, done := rowsBy(t, c)
	require.Len(t, rows, 6, "the process, two namespaces, three queues")
	total := rows[job.StatKey{Namespace: red, Minute: start}]
	require.EqualValues(t, 1, total.Started)
	require.EqualValues(t, 5, total.Succeeded)
	require.EqualValues(t, 2, total.Failed)
	require.EqualValues(t, 7, rows[job.StatKey{Namespace: blue, Queue: 3, Minute: start}].Missed)
	require.EqualValues(t, 10, rows[job.StatKey{Namespace: blue, Minute: start}].Missed, "with those of schedules")
	done()

	now = start.Add(61 * time.Second)
	c.Entered(1, job.EndedSucceeded, job.ReasonNone, 1)
	rows, done = rowsBy(t, c)
	require.EqualValues(t, 5, rows[job.StatKey{Namespace: red, Minute: start}].Succeeded, "all of the minute, again")
	require.EqualValues(t, 1, rows[job.StatKey{Namespace: red, Minute: start.Add(time.Minute)}].Succeeded)
	done()
	now = start.Add(75 * time.Second)
	rows, done = rowsBy(t, c)
	require.Contains(t, rows, job.StatKey{Minute: start}, "not dropped before it was written once more")
	done()
	rows, _ = rowsBy(t, c)
	require.NotContains(t, rows, job.StatKey{Minute: start})
}

func TestLateIsThatOfTheLastSample(t *testing.T) {
	t.Parallel()
	c := tally.New(func() time.Time { return start })
	red := uuid.New()
	c.Learn(map[int32]uuid.UUID{1: red, 2: red})
	c.Late(map[int32]int64{1: 10, 2: 3})
	c.Late(map[int32]int64{2: 4})
	rows, _ := rowsBy(t, c)
	require.EqualValues(t, 0, rows[job.StatKey{Namespace: red, Queue: 1, Minute: start}].Late)
	require.EqualValues(t, 4, rows[job.StatKey{Namespace: red, Minute: start}].Late)
}

// TestTallyIsBounded: while nothing can be written it keeps an hour, and few queues have rows of their own.
func TestTallyIsBounded(t *testing.T) {
	t.Parallel()
	now := start
	c := tally.New(func() time.Time { return now })
	red := uuid.New()
	for queue := range int32(1000) {
		c.Learn(map[int32]uuid.UUID{queue + 1: red})
	}
	for range 100 {
		for queue := range int32(1000) {
			c.Entered(queue+1, job.EndedSucceeded, job.ReasonNone, int64(queue))
		}
		now = now.Add(time.Minute)
	}
	rows, _ := c.Rows()
	require.LessOrEqual(t, len(rows), 60*(job.MaxStatQueues+3))
	for _, r := range rows {
		require.True(t, r.Queue <= 0 || r.Queue > 1000-job.MaxStatQueues, "the busiest")
		if r.Namespace == red && r.Queue == 0 {
			require.EqualValues(t, 1000*999/2, r.Succeeded, "the sum has them all")
		}
	}
}

// TestNamespacesShareTheRows: busy queues of one namespace do not take the rows of another.
func TestNamespacesShareTheRows(t *testing.T) {
	t.Parallel()
	c := tally.New(func() time.Time { return start })
	red, blue := uuid.New(), uuid.New()
	for queue := range int32(2 * job.MaxStatQueues) {
		c.Learn(map[int32]uuid.UUID{queue + 1: red})
		c.Entered(queue+1, job.EndedSucceeded, job.ReasonNone, 1000+int64(queue))
	}
	c.Learn(map[int32]uuid.UUID{9001: blue, 9002: blue})
	c.Entered(9001, job.EndedSucceeded, job.ReasonNone, 1)
	c.Entered(9002, job.EndedSucceeded, job.ReasonNone, 2)
	rows, _ := rowsBy(t, c)
	require.EqualValues(t, 1, rows[job.StatKey{Namespace: blue, Queue: 9001, Minute: start}].Succeeded)
	require.EqualValues(t, 2, rows[job.StatKey{Namespace: blue, Queue: 9002, Minute: start}].Succeeded)
	require.Len(t, rows, 1+2+job.MaxStatQueues+1, "as many as before")
	require.Contains(t, rows, job.StatKey{Namespace: red, Queue: 2 * job.MaxStatQueues, Minute: start}, "the busiest")
}

func TestTallyAtOnce(t *testing.T) {
	t.Parallel()
	c := tally.New(func() time.Time { return start })
	red := uuid.New()
	c.Learn(map[int32]uuid.UUID{1: red})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				c.Started(1, time.Millisecond)
				c.Rows()
			}
		})
	}
	all.Wait()
	rows, _ := rowsBy(t, c)
	require.EqualValues(t, 8000, rows[job.StatKey{Namespace: red, Minute: start}].Started)
}

// TestQueuesWithoutRowsAreTheRest: what is counted in queues without a row of their own has a row, and a queue that has
// had a row keeps it.
func TestQueuesWithoutRowsAreTheRest(t *testing.T) {
	t.Parallel()
	c := tally.New(func() time.Time { return start })
	red := uuid.New()
	key := func(queue int32) job.StatKey { return job.StatKey{Namespace: red, Queue: queue, Minute: start} }
	for queue := range int32(job.MaxStatQueues) {
		c.Learn(map[int32]uuid.UUID{queue + 1: red})
		c.Entered(queue+1, job.EndedSucceeded, job.ReasonNone, int64(queue)+1)
	}
	rows, _ := rowsBy(t, c)
	require.NotContains(t, rows, key(job.StatRest), "each queue has a row")

	for queue := int32(1001); queue <= 1000+2*job.MaxStatQueues; queue++ {
		c.Learn(map[int32]uuid.UUID{queue: red})
		c.Entered(queue, job.EndedFailed, job.ReasonAttempts, 1000)
	}
	c.Entered(1, job.EndedSucceeded, job.ReasonNone, 1)
	rows, _ = rowsBy(t, c)
	require.EqualValues(t, 2, rows[key(1)].Succeeded, "its row goes on")
	require.EqualValues(t, 1000*job.MaxStatQueues, rows[key(job.StatRest)].Failed)
	for range 10 {
		c.Entered(1000+2*job.MaxStatQueues, job.EndedFailed, job.ReasonAttempts, 1)
		rows, _ = rowsBy(t, c)
		require.Len(t, rows, 3+2*job.MaxStatQueues, "bounded")
	}
}
