package engine

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// A run that is taken before its time is not claimed, and then forgotten until
// the next load: jitter and retries put run_at anywhere within a slot.
func TestWheelTakesNothingBeforeItsTime(t *testing.T) {
	t.Parallel()
	slot := time.Unix(1_800_000_000, 0)
	for _, offset := range []time.Duration{0, time.Microsecond, slotWidth / 2, slotWidth - time.Microsecond} {
		w := newWheel()
		run := job.Run{Key: job.Key{Job: uuid.New(), DueAt: slot}, RunAt: slot.Add(offset)}
		w.add([]job.Run{run})
		next, ok := w.next()
		require.True(t, ok)
		require.False(t, next.Before(run.RunAt), "asked to come back before the run is due")
		require.Less(t, next.Sub(run.RunAt), slotWidth)
		require.Empty(t, w.take(run.RunAt.Add(-time.Microsecond), 1))
		require.Equal(t, []job.Run{run}, w.take(next, 1))
	}
}
