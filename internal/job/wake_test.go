package job_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestWakeIsBoundedAndReadable(t *testing.T) {
	t.Parallel()
	var w job.Wake
	require.True(t, w.Empty())
	for i := range 100_000 {
		w.Add(int16(i%job.Partitions), 0, false)
		w.Add(0, int32(2_000_000_000+i), true)
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

func TestWakesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "7", `{"partitions":[256]}`, `{"partitions":[-1]}`, `{"queues":["a"]}`} {
		w, err := job.ParseWake(text)
		require.Error(t, err, text)
		require.True(t, w.Empty())
	}
}
