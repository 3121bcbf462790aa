package wheel

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestRunsOfAPausedQueueGiveUpTheirTurnAndComeBack(t *testing.T) {
	t.Parallel()
	w := New(0)
	at := time.Unix(1000, 0)
	id := uuid.New()
	run := func(id uuid.UUID, queue int32, seq int16) job.Run {
		k := job.Key{Job: id, DueAt: at, Seq: seq, Partition: job.PartitionOf(id)}
		return job.Run{Key: k, RunAt: at, Queue: queue}
	}
	// Three runs of one job: the first is taken, the second waits for its turn, and the third is in
	// another queue.
	runs := []job.Run{run(id, 1, 1), run(id, 1, 2), run(id, 2, 3)}
	w.Add(runs)
	taken := w.Take(at, 10, all{})
	require.Equal(t, runs[:1], taken)
	w.SetPaused([]int32{1})
	w.Release(taken)
	require.Equal(t, runs[2:], w.Take(at, 10, all{}), "the second is set aside, and the third gets its turn")
	w.Release(runs[2:])
	require.Empty(t, w.Take(at, 10, all{}))
	require.Equal(t, 1, w.Len(), "it stays known, so a sweep does not add it again")
	w.Add(runs[1:2])
	require.Empty(t, w.Take(at, 10, all{}))

	w.SetPaused(nil)
	require.Equal(t, runs[1:2], w.Take(at, 10, all{}))
	w.Release(runs[1:2])
	require.Zero(t, w.Len())

	// Runs that are set aside are dropped with their partition.
	w.SetPaused([]int32{1})
	w.Add(runs[:1])
	require.Empty(t, w.Take(at, 10, all{}))
	w.DropPartitions([]int16{runs[0].Partition})
	require.Zero(t, w.Len())
	w.SetPaused(nil)
	require.Empty(t, w.Take(at, 10, all{}))
}
