package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// waitingRuns are runs of a job that wait for a queue, in order.
func waitingRuns(id uuid.UUID, n int, queue int32) (runs []job.Run) {
	for i := range n {
		r := runAt(id, i, 5)
		r.RunAt, r.Queue = epoch, queue
		runs = append(runs, r)
	}
	return runs
}

// limitedWheel has one limited queue, and runs that are due in its lane.
func limitedWheel(runs ...job.Run) *wheel {
	w := newWheel(0)
	w.limit([]int32{1})
	w.add(runs)
	w.take(epoch, 1)
	return w
}

var afterEpoch = epoch.Add(time.Second)

// TestManyRunsOfAJobInALane: one of them is taken at a time, the others stay where they are, and other jobs start meanwhile.
func TestManyRunsOfAJobInALane(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	many, other := waitingRuns(a, 1000, 1), waitingRuns(b, 2, 1)
	w := limitedWheel(append(many, other...)...)
	for i := range many {
		want := []job.Run{many[i]}
		if i < len(other) {
			want = append(want, other[i])
		}
		out, _ := w.takeLanes(afterEpoch, 10)
		require.ElementsMatch(t, want, out)
		none, _ := w.takeLanes(afterEpoch, 10)
		require.Empty(t, none)
		require.Empty(t, w.busy[a].waiting)
		_, waits := w.waiting(1)
		if i < len(many)-1 {
			require.Equal(t, []job.Lane{{Queue: 1, Waiting: int32(len(many) + max(len(other)-i-1, 0) - i - 1), Priority: -1}}, waits)
		}
		w.release(out)
	}
	require.Zero(t, w.size())
	require.Empty(t, w.busy)
	require.Empty(t, w.lanes.of)
	require.Empty(t, w.lanes.in)
	require.Empty(t, w.lanes.asleep)
}

// TestARefusedRunComesFirstAgain: before those of its job that it kept waiting.
func TestARefusedRunComesFirstAgain(t *testing.T) {
	t.Parallel()
	runs := waitingRuns(uuid.New(), 3, 1)
	w := limitedWheel(runs...)
	out, _ := w.takeLanes(afterEpoch, 10)
	require.Equal(t, runs[:1], out)
	w.takeLanes(afterEpoch, 10) // the others are put aside
	w.refuse(out, []job.Refusal{{Limit: job.QueueLimit(1)}}, afterEpoch)
	none, _ := w.takeLanes(afterEpoch, 10)
	require.Empty(t, none, "it is full")
	w.vacate([]job.Completion{{Limits: []job.Limit{job.QueueLimit(1)}}})
	out, _ = w.takeLanes(afterEpoch, 10)
	require.Equal(t, runs[:1], out)
}

// TestALaneThatIsDroppedWhileOneIsTaken: nothing is left, and what comes back is taken.
func TestALaneThatIsDroppedWhileOneIsTaken(t *testing.T) {
	t.Parallel()
	runs := waitingRuns(uuid.New(), 3, 1)
	w := limitedWheel(runs...)
	out, _ := w.takeLanes(afterEpoch, 10)
	w.takeLanes(afterEpoch, 10)
	w.drop([]int16{runs[0].Partition})
	require.Equal(t, 1, w.size(), "the one that is taken")
	w.add(runs)
	w.take(epoch, 1)
	w.takeLanes(afterEpoch, 10)
	w.release(out)
	out, _ = w.takeLanes(afterEpoch, 10)
	require.Equal(t, runs[1:2], out)
	w.release(out)
	w.drop([]int16{runs[0].Partition})
	require.Zero(t, w.size())
	require.Empty(t, w.lanes.in)
}

// BenchmarkManyRunsOfAJob is a start of one of many runs of a job that wait in a lane.
func BenchmarkManyRunsOfAJob(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := limitedWheel(waitingRuns(uuid.New(), n, 1)...)
			for b.Loop() {
				out, _ := w.takeLanes(afterEpoch, 200)
				w.release(out)
				w.add(out) // so that there are as many again
				w.take(epoch, 100)
			}
		})
	}
}
