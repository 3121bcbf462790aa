package http

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cache is bounded in number and in bytes, and never answers for another
// config.
func TestCache(t *testing.T) {
	t.Parallel()
	c := &cache{most: 100, mostBytes: 2000}
	text := func(n int) string { return fmt.Sprintf(`{"url": "http://127.0.0.1/%020d"}`, n) } // 49 bytes
	for n := range 105 {
		got, err := c.get(text(n / 2))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("/%020d", n/2), got.base.URL.Path)
		again, err := c.get(text(n / 2))
		require.NoError(t, err)
		require.Same(t, got, again)
		require.LessOrEqual(t, c.bytes, 2000)
		require.Equal(t, len(c.known)*len(text(0)), c.bytes)
	}
	require.Len(t, c.known, 53-2000/len(text(0)), "it started anew once, by bytes")
	c = &cache{most: 10, mostBytes: 1 << 20}
	for n := range 25 {
		_, err := c.get(text(n))
		require.NoError(t, err)
	}
	require.Len(t, c.known, 5, "it started anew twice, by number")
	_, err := c.get(`{"url": 1}`)
	require.Error(t, err)
	require.Len(t, c.known, 5, "what is not valid is not kept")
}
