package wheel

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// limitedRuns adds runs of a queue that has a limit and belongs to a namespace.
func limitedRuns(w *Wheel, namespace uuid.UUID, queue int32, n int, priority int16) {
	w.SetNamespaces(map[int32]uuid.UUID{queue: namespace})
	w.waiting.addLimited(queue)
	for range n {
		w.Add([]job.Run{{
			Key: job.Key{Job: uuid.New(), DueAt: time.Unix(1, 0)}, RunAt: time.Unix(1, 0), Queue: queue, Priority: priority,
		}})
	}
	w.Take(time.Unix(10, 0), 1, all{}) // sets them aside
}

// TestNamespacesTakeTurnsUnderLimits: many waiting runs of one namespace, in many queues and of the highest priority, do
// not delay those of another one.
func TestNamespacesTakeTurnsUnderLimits(t *testing.T) {
	t.Parallel()
	w := New(0)
	attacker, victim := uuid.New(), uuid.New()
	for q := range int32(100) {
		limitedRuns(w, attacker, q+1, 10, job.MaxPriority)
	}
	limitedRuns(w, victim, 200, 10, 0)
	own := 0
	taken, _ := w.TakeWaiting(time.Unix(10, 0), 10, all{})
	require.Len(t, taken, 10)
	for _, r := range taken {
		if r.Queue == 200 {
			own++
		}
	}
	require.Equal(t, 5, own)
	taken, _ = w.TakeWaiting(time.Unix(10, 0), 2000, all{})
	require.Len(t, taken, 1000, "a turn that is not used goes to others")
	first := 0
	for range 100 {
		w := New(0)
		for q := range int32(20) {
			limitedRuns(w, attacker, q+1, 1, job.MaxPriority)
		}
		limitedRuns(w, victim, 200, 1, 0)
		taken, _ := w.TakeWaiting(time.Unix(10, 0), 1, all{})
		if taken[0].Queue == 200 {
			first++
		}
	}
	require.Greater(t, first, 20, "with one slot, each namespace gets it half of the time")
}

// TestSharesUnderLimits: waiting runs of a namespace that has its share of the slots stay where they are, and those of
// others are taken.
func TestSharesUnderLimits(t *testing.T) {
	t.Parallel()
	w := New(0)
	one, other := uuid.New(), uuid.New()
	limitedRuns(w, one, 1, 5, job.MaxPriority)
	limitedRuns(w, other, 2, 5, 0)
	shares := upTo{one: 2, other: 100}
	taken, _ := w.TakeWaiting(time.Unix(10, 0), 100, shares)
	require.Len(t, taken, 7)
	require.Equal(t, upTo{one: 0, other: 95}, shares)
	shares[one] = 100
	taken, _ = w.TakeWaiting(time.Unix(10, 0), 100, shares)
	require.Len(t, taken, 3)
}
