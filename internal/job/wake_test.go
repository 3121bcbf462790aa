package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestWakeIsBoundedAndReadable(t *testing.T) {
	t.Parallel()
	var w job.Wake
	require.True(t, w.Empty())
	for i := range 100_000 {
		w.Add(int16(i%job.Partitions), 0, false)
		w.AddLate(int32(2_000_000_000+i), time.Unix(9_000_000_000, 0))
	}
	require.Len(t, w.Partitions, job.Partitions, "each partition once")
	text := w.Text()
	require.Less(t, len(text), 8000, "the limit of PostgreSQL for a notification")
	back, err := job.ParseWake(text)
	require.NoError(t, err)
	require.Equal(t, w, back)
	w.Merge(back)
	require.Equal(t, back, w, "it names nothing twice")
}

func TestALateRunIsNamedWithItsTime(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var w, other job.Wake
	w.AddLate(1, first)
	w.AddLate(1, first.Add(time.Minute))
	w.Add(0, 1, true)
	other.Add(0, 2, true)
	other.AddLate(2, first.Add(time.Second))
	other.Add(0, 3, true)
	other.AddLate(1, first.Add(-time.Second/2))
	w.Merge(other)
	back, err := job.ParseWake(w.Text())
	require.NoError(t, err)
	require.Equal(t, job.Wake{Queues: map[int32]int64{1: first.Unix() - 1, 2: first.Unix() + 1, 3: 0}}, back)
}

func TestWakesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "7", `{"partitions":[256]}`, `{"partitions":[-1]}`, `{"queues":{"a":0}}`} {
		w, err := job.ParseWake(text)
		require.Error(t, err, text)
		require.True(t, w.Empty())
	}
}
