package wheel

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// blockAll takes the runs of a job one after the other, and returns each as blocked.
func blockAll(t *testing.T, w *Wheel, now time.Time, expires ...time.Time) (taken []job.Run) {
	t.Helper()
	for got := w.Take(now, 9, all{}); len(got) > 0; got = w.Take(now, 9, all{}) {
		require.Len(t, got, 1)
		at := time.Time{}
		if len(taken) < len(expires) {
			at = expires[len(taken)]
		}
		taken = append(taken, got[0])
		w.ReturnBlocked(got[0], now.Add(BlockedPause), at)
	}
	return taken
}

func addLine(w *Wheel, n int) (id uuid.UUID, runs []job.Run) {
	id = uuid.New()
	for i := range n {
		runs = append(runs, runAt(id, 10*i, 0))
	}
	w.Add(runs)
	return id, runs
}

func ended(id uuid.UUID) []job.Completion { return []job.Completion{{Key: job.Key{Job: id}}} }

// TestOnlyTheFirstBlockedRunIsTakenAgain: each run of a line is taken once. Then only the first is, once a pause and when
// a run of the job ends.
func TestOnlyTheFirstBlockedRunIsTakenAgain(t *testing.T) {
	t.Parallel()
	w := New(0)
	id, runs := addLine(w, 100)
	now := epoch.Add(2 * time.Second)
	require.Equal(t, runs, blockAll(t, w, now))
	require.Equal(t, 100, w.Len())
	for range 3 {
		now = now.Add(BlockedPause + SlotWidth)
		require.Equal(t, runs[:1], blockAll(t, w, now), "each second")
	}
	for i := range 5 {
		w.RunsEnded(ended(id))
		taken := w.Take(now, 9, all{})
		require.Equal(t, runs[i:i+1], taken, "when another ends")
		w.Started(taken)
		require.Empty(t, w.Take(now, 9, all{}), "the next waits for its end")
	}
	now = now.Add(BlockedPause + SlotWidth)
	taken := w.Take(now, 9, all{})
	require.Equal(t, runs[5:6], taken)
	w.Release(taken) // a user has cancelled it
	require.Equal(t, runs[6:7], w.Take(now, 9, all{}))
}

// TestALineStartsWithoutPausesIfItMay: if a run starts although nothing has ended, the job may allow several by now.
func TestALineStartsWithoutPausesIfItMay(t *testing.T) {
	t.Parallel()
	w := New(0)
	_, runs := addLine(w, 10)
	now := epoch.Add(2 * time.Second)
	blockAll(t, w, now)
	now = now.Add(BlockedPause + SlotWidth)
	for i := range runs {
		taken := w.Take(now, 9, all{})
		require.Equal(t, runs[i:i+1], taken)
		w.Started(taken)
	}
	require.Zero(t, w.Len())
	require.Empty(t, w.blocked)
}

// TestBlockedRunsAreTakenWhenTheyExpire, wherever in the line they are.
func TestBlockedRunsAreTakenWhenTheyExpire(t *testing.T) {
	t.Parallel()
	w := New(0)
	_, runs := addLine(w, 4)
	now := epoch.Add(2 * time.Second)
	expires := now.Add(3*BlockedPause + BlockedPause/2)
	blockAll(t, w, now, time.Time{}, time.Time{}, expires, expires.Add(time.Hour))
	for range 3 {
		now = now.Add(BlockedPause + SlotWidth)
		require.Equal(t, runs[:1], blockAll(t, w, now))
	}
	now = now.Add(BlockedPause + SlotWidth)
	taken := w.Take(now, 9, all{})
	require.Equal(t, runs[:1], taken)
	w.ReturnBlocked(taken[0], now.Add(BlockedPause), time.Time{})
	require.Equal(t, runs[2:3], w.Take(now, 9, all{}))
}

// TestAnEndDuringADecisionIsNoticed: a run ends after the database has said that another one waits for it, and before
// the wheel knows that.
func TestAnEndDuringADecisionIsNoticed(t *testing.T) {
	t.Parallel()
	w := New(0)
	id, runs := addLine(w, 3)
	now := epoch.Add(2 * time.Second)
	taken := w.Take(now, 9, all{})
	w.RunsEnded(ended(id))
	w.ReturnBlocked(taken[0], now.Add(BlockedPause), time.Time{})
	taken = w.Take(now, 9, all{})
	require.Equal(t, runs[:1], taken, "before the others of its job")
	w.ReturnBlocked(taken[0], now.Add(BlockedPause), time.Time{})
	require.Equal(t, runs[1:], blockAll(t, w, now))
}

func TestDropForgetsBlockedRuns(t *testing.T) {
	t.Parallel()
	w := New(0)
	id, runs := addLine(w, 5)
	now := epoch.Add(2 * time.Second)
	blockAll(t, w, now)
	w.DropPartitions([]int16{job.PartitionOf(id)})
	require.Zero(t, w.Len())
	require.Empty(t, w.blocked)
	require.Empty(t, w.Take(now.Add(time.Minute), 9, all{}))
	w.Add(runs)
	require.Equal(t, runs, blockAll(t, w, now.Add(time.Minute)))
}
