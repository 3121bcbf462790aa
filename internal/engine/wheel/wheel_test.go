package wheel

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// runAt is a run of a job that may start some milliseconds after the epoch.
func runAt(id uuid.UUID, ms int, priority int16) job.Run {
	at := epoch.Add(time.Duration(ms) * time.Millisecond)
	return job.Run{Key: job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: at}, RunAt: at, Priority: priority}
}

// all lets every run be taken.
type all struct{}

func (all) Full(uuid.UUID) bool { return false }
func (all) Took(uuid.UUID)      {}

func ids(runs []job.Run) (out []uuid.UUID) {
	for _, r := range runs {
		out = append(out, r.Job)
	}
	return out
}

func TestWheelTakesWhatIsDueByPriorityThenTime(t *testing.T) {
	t.Parallel()
	w := New(0)
	a, b, c, d := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	w.Add([]job.Run{runAt(b, 500, 0), runAt(a, 0, 0), runAt(d, 2000, 9), runAt(c, 900, 5)})
	next, ok := w.Next()
	require.True(t, ok)
	require.True(t, next.Equal(epoch))
	// After an overload, c is later than a and b and goes first.
	require.Equal(t, []uuid.UUID{c}, ids(w.Take(epoch.Add(time.Second), 1, all{})))
	require.Equal(t, []uuid.UUID{a, b}, ids(w.Take(epoch.Add(time.Second), 9, all{})))
	require.Empty(t, w.Take(epoch.Add(time.Second), 9, all{}), "d is not due")
	require.Equal(t, 4, w.Len(), "taken runs are known until they are released")
}

func TestWheelKnowsWhatItHasAndWhatIsTaken(t *testing.T) {
	t.Parallel()
	w := New(0)
	r := runAt(uuid.New(), 0, 0)
	w.Add([]job.Run{r, r})
	w.Add([]job.Run{r})
	taken := w.Take(epoch, 9, all{})
	require.Len(t, taken, 1)
	w.Add([]job.Run{r}) // a sweep that read it before it was claimed
	require.Empty(t, w.Take(epoch, 9, all{}))
	w.Release(taken)
	require.Zero(t, w.Len())
	w.Add([]job.Run{r})
	require.Len(t, w.Take(epoch, 9, all{}), 1)
}

// A user may cancel a run that waits a day for its retry, and retry it at once: the run is found again with an earlier
// run time.
func TestWheelTakesARunAtItsEarlierTime(t *testing.T) {
	t.Parallel()
	w := New(0)
	late := runAt(uuid.New(), 3_600_000, 0)
	w.Add([]job.Run{late})
	early := late
	early.RunAt = epoch
	for range 3 { // as sweeps find it
		w.Add([]job.Run{early, late})
	}
	next, ok := w.Next()
	require.True(t, ok)
	require.True(t, next.Equal(epoch))
	taken := w.Take(epoch, 9, all{})
	require.Equal(t, []job.Run{early}, taken)
	w.Add([]job.Run{early})
	require.Empty(t, w.Take(epoch, 9, all{}), "it is taken once")
	w.ReturnBlocked(early, epoch.Add(time.Minute), time.Time{})
	w.Add([]job.Run{early})
	require.Empty(t, w.Take(epoch.Add(time.Second), 9, all{}), "a run that was put off stays put off")
	taken = w.Take(epoch.Add(time.Minute), 9, all{})
	require.Equal(t, []job.Run{early}, taken)
	w.Release(taken)
	require.Zero(t, w.Len())

	// The entry at the later time is still there. It is taken once more, and the claim finds nothing.
	taken = w.Take(late.RunAt, 9, all{})
	require.Equal(t, []job.Run{late}, taken)
	w.Release(taken)
	require.Empty(t, w.Take(late.RunAt, 9, all{}))
	require.Empty(t, w.busy)
}

func TestWheelHandsOutOneRunOfAJobAtATime(t *testing.T) {
	t.Parallel()
	w := New(0)
	id, other := uuid.New(), uuid.New()
	w.Add([]job.Run{runAt(id, 0, 0), runAt(id, 1000, 0), runAt(id, 2000, 0), runAt(other, 3000, 0)})
	late := epoch.Add(time.Hour)
	var due []time.Time
	first := w.Take(late, 9, all{})
	require.Equal(t, []uuid.UUID{id, other}, ids(first))
	w.Release(first[1:])
	for taken := first[:1]; len(taken) > 0; taken = w.Take(late, 9, all{}) {
		require.Len(t, taken, 1)
		require.Empty(t, w.Take(late, 9, all{}), "while one is in a claim")
		due = append(due, taken[0].DueAt)
		require.True(t, w.Taken(taken[0].RunKey()))
		w.Release(taken)
		require.False(t, w.Taken(taken[0].RunKey()))
	}
	require.Equal(t, []time.Time{epoch, epoch.Add(time.Second), epoch.Add(2 * time.Second)}, due)
	require.Zero(t, w.Len())
	require.Empty(t, w.busy)
}

func TestWheelTakesReturnedRunsAgain(t *testing.T) {
	t.Parallel()
	w := New(0)
	id := uuid.New()
	w.Add([]job.Run{runAt(id, 0, 0), runAt(id, 100, 0)})
	taken := w.Take(epoch.Add(time.Second), 9, all{})
	taken[0].RunAt = epoch.Add(time.Minute)
	w.Return(taken)
	second := w.Take(epoch.Add(time.Second), 9, all{})
	require.Len(t, second, 1)
	require.True(t, second[0].DueAt.Equal(epoch.Add(100*time.Millisecond)), "the job's next run does not wait for it")
	w.Release(second)
	require.Len(t, w.Take(epoch.Add(time.Minute), 9, all{}), 1)
}

func TestWheelBlockedRunsAreReadyWhenAnotherEnds(t *testing.T) {
	t.Parallel()
	w := New(0)
	id := uuid.New()
	w.Add([]job.Run{runAt(id, 0, 0)})
	block := func() {
		taken := w.Take(epoch.Add(time.Second), 9, all{})
		require.Len(t, taken, 1)
		w.ReturnBlocked(taken[0], epoch.Add(time.Minute), time.Time{})
	}
	block()
	require.Empty(t, w.Take(epoch.Add(time.Second), 9, all{}))
	w.RunsEnded([]job.Completion{{Key: job.Key{Job: uuid.New()}}})
	require.Empty(t, w.Take(epoch.Add(time.Second), 9, all{}))
	w.RunsEnded([]job.Completion{{Key: job.Key{Job: id}}})
	block()
	require.Len(t, w.Take(epoch.Add(time.Minute), 9, all{}), 1, "its time comes even if nothing ends")
	require.Empty(t, w.blocked)
}

func TestWheelDropForgetsWhateverStateRunsAreIn(t *testing.T) {
	t.Parallel()
	w := New(0)
	id := uuid.New()
	runs := []job.Run{runAt(id, 0, 0), runAt(id, 10, 0), runAt(id, 20, 0), runAt(id, 60_000, 0)}
	w.Add(runs)
	taken := w.Take(epoch.Add(time.Second), 9, all{}) // one is taken, two wait, one is in a bucket
	require.Len(t, taken, 1)
	w.DropPartitions([]int16{job.PartitionOf(id)})
	require.Equal(t, 1, w.Len(), "only the taken run")
	w.Release(taken)
	require.Zero(t, w.Len())

	w.Add(runs)
	w.Release(w.Take(epoch.Add(time.Second), 9, all{})) // the second is ready now
	w.DropPartitions([]int16{job.PartitionOf(id)})
	require.Zero(t, w.Len())
	require.Empty(t, w.busy, "a job without runs is not busy")
	w.Add(runs)
	require.Len(t, w.Take(epoch.Add(time.Second), 9, all{}), 1, "regained")
}

func TestWheelRunsOfAPausedQueueFollowTheirJob(t *testing.T) {
	t.Parallel()
	w := New(0)
	r := runAt(uuid.New(), 0, 0)
	r.Queue = 1
	w.SetPaused([]int32{1})
	w.Add([]job.Run{r})
	require.Empty(t, w.Take(epoch, 9, all{}), "set aside")
	w.Add([]job.Run{r})
	require.Empty(t, w.Take(epoch, 9, all{}), "still set aside")
	r.Queue = 2 // a sweep finds that the job was moved
	w.Add([]job.Run{r})
	require.Equal(t, []uuid.UUID{r.Job}, ids(w.Take(epoch, 9, all{})))
	w.SetPaused(nil)
	require.Empty(t, w.Take(epoch, 9, all{}), "once")
}

// A slot with many runs costs no more for each run than one with few.
func BenchmarkWheelHotSlot(b *testing.B) {
	runs := make([]job.Run, 500_000)
	for i := range runs {
		runs[i] = runAt(uuid.New(), 0, 0)
	}
	for b.Loop() {
		w := New(0)
		w.Add(runs)
		for taken := w.Take(epoch, 1000, all{}); len(taken) > 0; taken = w.Take(epoch, 1000, all{}) {
			w.Release(taken)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(runs)), "ns/run")
}

// A run that is taken before its time is not claimed, and is then forgotten until the next load. Jitter
// and retries put run_at anywhere within a slot.
func TestWheelTakesNothingBeforeItsTime(t *testing.T) {
	t.Parallel()
	slot := time.Unix(1_800_000_000, 0)
	for _, offset := range []time.Duration{0, time.Microsecond, SlotWidth / 2, SlotWidth - time.Microsecond} {
		w := New(0)
		run := job.Run{Key: job.Key{Job: uuid.New(), DueAt: slot}, RunAt: slot.Add(offset)}
		w.Add([]job.Run{run})
		next, ok := w.Next()
		require.True(t, ok)
		require.False(t, next.Before(run.RunAt), "Next is before the run is due")
		require.Less(t, next.Sub(run.RunAt), SlotWidth)
		require.Empty(t, w.Take(run.RunAt.Add(-time.Microsecond), 1, all{}))
		require.Equal(t, []job.Run{run}, w.Take(next, 1, all{}))
	}
}
