package settings

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cache is bounded in number and in bytes, and never returns another config.
func TestCache(t *testing.T) {
	t.Parallel()
	type parsed struct{ text string }
	parse := func(text string) (*parsed, error) {
		if text == "" {
			return nil, errors.New("invalid")
		}
		return &parsed{text}, nil
	}
	c := &Cache[*parsed]{Parse: parse, MaxEntries: 100, MaxBytes: 2000}
	text := func(n int) string { return fmt.Sprintf(`{"url": "http://127.0.0.1/%020d"}`, n) } // 48 bytes
	for n := range 105 {
		got, err := c.Get(text(n / 2))
		require.NoError(t, err)
		require.Equal(t, text(n/2), got.text)
		again, err := c.Get(text(n / 2))
		require.NoError(t, err)
		require.Same(t, got, again)
		require.LessOrEqual(t, c.bytes, 2000)
		require.Equal(t, len(c.entries)*len(text(0)), c.bytes)
	}
	require.Len(t, c.entries, 53-2000/len(text(0)), "it was emptied once, because of bytes")
	c = &Cache[*parsed]{Parse: parse, MaxEntries: 10, MaxBytes: 1 << 20}
	for n := range 25 {
		_, err := c.Get(text(n))
		require.NoError(t, err)
	}
	require.Len(t, c.entries, 5, "it was emptied twice, because of entries")
	_, err := c.Get("")
	require.Error(t, err)
	require.Len(t, c.entries, 5, "invalid configs are not cached")
}
