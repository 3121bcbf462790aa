package share

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestPool(t *testing.T) {
	t.Parallel()
	const size = 900
	p := New(size)
	fill := func(owner uuid.UUID) (n int64) {
		for p.Take(owner, 1) == nil {
			n++
		}
		return n
	}
	first, second, third := uuid.New(), uuid.New(), uuid.New()
	require.EqualValues(t, size*4/5, fill(first), "an owner alone has most of it")
	require.ErrorIs(t, p.Take(first, 1), ErrMost)
	require.Positive(t, fill(second), "and leaves some to others")
	require.NoError(t, p.Take(third, 1), "whoever has nothing gets something")

	p.Give(first, size/2)
	require.ErrorIs(t, p.Take(third, size), ErrFull)
	fill(second)
	p.Give(first, size*4/5-size/2)
	fill(second)
	require.Positive(t, fill(third))
	require.Positive(t, fill(first))
	require.NotZero(t, p.size-p.used)

	for owner, n := range p.by {
		p.Give(owner, n)
	}
	require.Zero(t, p.used)
	require.Empty(t, p.by)
	require.NoError(t, p.Take(first, size), "one that has nothing may take everything at once")
	require.ErrorIs(t, p.Take(second, 1), ErrFull)
}
