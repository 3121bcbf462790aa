package wheel

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestUpcomingOfNamespaces: runs are counted for the namespace of their queue while they wait for their time or for a
// claim, wherever the wheel keeps them.
func TestUpcomingOfNamespaces(t *testing.T) {
	t.Parallel()
	due := time.Unix(1_000_000, 0)
	one, other := uuid.New(), uuid.New()
	w := New(0)
	w.SetNamespaces(map[int32]uuid.UUID{1: one, 2: one, 3: other})
	run := func(queue int32, after time.Duration) job.Run {
		id := uuid.New()
		at := due.Add(after)
		return job.Run{Key: job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: at}, RunAt: at, Queue: queue}
	}
	third := run(3, 0)
	runs := []job.Run{run(1, 0), run(2, time.Hour), third, run(3, time.Hour), run(4, 0)}
	w.Add(runs)
	want := map[uuid.UUID]int{one: 2, other: 2, uuid.Nil: 1}
	require.Equal(t, want, w.Upcoming())
	w.advance(slotBefore(due.Add(time.Second)))
	require.Equal(t, want, w.Upcoming(), "ready runs count too")
	taken := w.Take(due.Add(time.Second), 3, all{})
	require.Len(t, taken, 3)
	require.Equal(t, map[uuid.UUID]int{one: 1, other: 1}, w.Upcoming())
	w.ReturnBlocked(third, due.Add(time.Hour), time.Time{})
	require.Equal(t, map[uuid.UUID]int{one: 1, other: 1}, w.Upcoming(), "it waits for another run")
	w.RunsEnded([]job.Completion{{Key: third.Key}})
	require.Equal(t, map[uuid.UUID]int{one: 1, other: 2}, w.Upcoming(), "no longer blocked")
	w.DropPartitions([]int16{runs[1].Partition})
	require.NotContains(t, w.Upcoming(), one)
	every := make([]int16, job.Partitions)
	for i := range every {
		every[i] = int16(i)
	}
	w.DropPartitions(every)
	require.Empty(t, w.Upcoming())
}
