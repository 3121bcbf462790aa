package sessions

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

func TestACodeWorksOnce(t *testing.T) {
	t.Parallel()
	c := NewCode("the key")
	require.False(t, (*Code)(nil).matches(""))
	require.False(t, c.matches(""))
	require.False(t, c.matches(c.Text()+"x"))
	require.True(t, c.matches(c.Text()))
	require.NotEqual(t, c.Text(), NewCode("the key").Text())
	require.GreaterOrEqual(t, len(c.Text()), 26, "at least 128 bits")

	failed := errors.New("the database does not answer")
	used, err := c.use(func(string) error { return failed })
	require.True(t, used)
	require.ErrorIs(t, err, failed)
	require.True(t, c.matches(c.Text()), "a login that failed does not use it up")
	used, err = c.use(func(key string) error {
		require.Equal(t, "the key", key)
		return nil
	})
	require.True(t, used)
	require.NoError(t, err)
	require.False(t, c.matches(c.Text()))
	used, err = c.use(func(string) error { return failed })
	require.False(t, used, "two that both matched do not both log in")
	require.NoError(t, err)
}

func TestACodeExpires(t *testing.T) {
	t.Parallel()
	c := NewCode("the key")
	require.LessOrEqual(t, c.until, clock.Elapsed()+codeLife)
	require.True(t, c.matches(c.Text()))
	c.until = clock.Elapsed()
	require.False(t, c.matches(c.Text()))
}
