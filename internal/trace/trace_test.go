package trace_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/trace"
)

func TestParent(t *testing.T) {
	t.Parallel()
	a := job.Attempt{
		Key: job.Key{Job: uuid.MustParse("01920000-0000-7000-8000-0123456789ab"), DueAt: time.Unix(1, 0)}, Number: 1,
	}
	first := trace.Parent(&a)
	require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", first)
	require.Equal(t, first, trace.Parent(&a))
	a.Number = 2
	second := trace.Parent(&a)
	require.Equal(t, first[:36], second[:36], "all attempts are in one trace")
	require.NotEqual(t, first, second, "each is a span of its own")
	other := a
	other.Key.Seq = 1
	require.NotEqual(t, second[:36], trace.Parent(&other)[:36])

	a.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	continued := trace.Parent(&a)
	require.Equal(t, a.Trace[:36], continued[:36])
	require.Equal(t, second[36:52], continued[36:52])
	require.Equal(t, "-00", continued[52:], "whether it is sampled is the caller's decision")
	a.Trace = "nonsense"
	require.Equal(t, second, trace.Parent(&a))
}

func TestParse(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	_, ok := trace.Parse(good)
	require.True(t, ok)
	for _, bad := range []string{
		"", good[1:], good + "0", "01" + good[2:], "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333x-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331\n01",
	} {
		_, ok := trace.Parse(bad)
		require.False(t, ok, bad)
	}
}
