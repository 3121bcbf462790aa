package body

import (
	"io"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/share"
)

// stepReader calls a function before each read.
type stepReader struct {
	io.Reader
	step func()
}

func (r stepReader) Read(p []byte) (int, error) {
	r.step()
	return r.Reader.Read(p)
}

// TestChunksTakeMemoryAsTheyArrive: a body of unknown size begins as a small one, and never has less memory than it needs.
func TestChunksTakeMemoryAsTheyArrive(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	for _, size := range []int{0, 1, 8 << 10, 64 << 10, 64<<10 + 1, most - 1, most, most + 1, 2 * most} {
		pools := NewPools(16 << 20)
		m := pools.For(uuid.New())
		from := strings.NewReader(strings.Repeat("x", size))
		text, err := m.Read(stepReader{from, func() {
			read := size - from.Len()
			require.GreaterOrEqual(t, m.taken, int64(2*read))
			require.LessOrEqual(t, m.taken, int64(max(leastMemory, 4*read)))
			require.True(t, m.pool == pools.large || read <= smallBody)
			require.True(t, m.pool == pools.small || read >= smallBody)
		}}, -1, most)
		require.NoError(t, err)
		require.Len(t, text, min(size, most+1))
		m.Shrink(0)
		for _, pool := range []*share.Pool{pools.large, pools.small} {
			require.NoError(t, pool.Take(uuid.New(), 2<<20), "all of it is back")
		}
	}
	m := NewPools(1 << 20).For(uuid.New())
	_, err := m.Read(strings.NewReader(strings.Repeat("x", most)), -1, most)
	require.ErrorIs(t, err, share.ErrMost)
}

// TestObjectsCountForMore: a decoded object needs more memory than other values.
func TestObjectsCountForMore(t *testing.T) {
	t.Parallel()
	m := NewPools(64 << 20).For(uuid.New())
	text := []byte("[" + strings.Repeat(`{"a":0},`, 999) + `{"a":0}]`)
	require.NoError(t, m.Count(text, true, MaxValues))
	require.Greater(t, m.taken, int64(1000*360))
	require.ErrorIs(t, m.Count(text, true, 100), ErrValues)
}
