package engine

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestHeldRunsLeaveTheirTurnAndComeBack(t *testing.T) {
	t.Parallel()
	w := newWheel(0)
	at := time.Unix(1000, 0)
	id := uuid.New()
	run := func(id uuid.UUID, queue int32, seq int16) job.Run {
		return job.Run{Key: job.Key{Job: id, DueAt: at, Seq: seq, Partition: job.PartitionOf(id)}, RunAt: at, Queue: queue}
	}
	// Three of one job: the first is taken, the second waits for its turn, and the
	// third has moved to another queue.
	runs := []job.Run{run(id, 1, 1), run(id, 1, 2), run(id, 2, 3)}
	w.add(runs)
	taken := w.take(at, 10)
	require.Equal(t, runs[:1], taken)
	w.pause([]int32{1})
	w.release(taken)
	require.Equal(t, runs[2:], w.take(at, 10), "the second is held, and its turn is the third's")
	w.release(runs[2:])
	require.Empty(t, w.take(at, 10))
	require.Equal(t, 1, w.size(), "it is known, so that no sweep brings it again")
	w.add(runs[1:2])
	require.Empty(t, w.take(at, 10))

	w.pause(nil)
	require.Equal(t, runs[1:2], w.take(at, 10))
	w.release(runs[1:2])
	require.Zero(t, w.size())

	// What is held is dropped with its partition.
	w.pause([]int32{1})
	w.add(runs[:1])
	require.Empty(t, w.take(at, 10))
	w.drop([]int16{runs[0].Partition})
	require.Zero(t, w.size())
	w.pause(nil)
	require.Empty(t, w.take(at, 10))
}
