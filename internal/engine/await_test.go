package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// A claimed run waits for its run time. If the database clock is wrong by an hour meanwhile, and then right again, the
// run starts, and not an hour later.
func TestAWaitDoesNotKeepAWrongClock(t *testing.T) {
	t.Parallel()
	bound := &clock.Bound{}
	right := time.Date(2026, 3, 29, 2, 30, 0, 0, time.UTC)
	require.Empty(t, bound.Set(clock.Sample{Now: right, Mark: right}).Doubt)
	require.NotEmpty(t, bound.Set(clock.Sample{Now: right.Add(-time.Hour), Mark: right}).Doubt)
	e := New(Options{Bound: bound, Member: ownsAll{}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	started := make(chan bool)
	waiting := make(chan struct{})
	go func() {
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		close(waiting)
		started <- e.awaitRunTime(ctx, timer, right)
	}()
	<-waiting
	select { // it must not start by the wrong clock
	case <-started:
		require.Fail(t, "early")
	case <-time.After(4 * idlePause):
	}
	later := right.Add(time.Second)
	require.Empty(t, bound.Set(clock.Sample{Now: later, Mark: later}).Doubt)
	require.True(t, <-started)
}
