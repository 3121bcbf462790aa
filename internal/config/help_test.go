package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHelp: each setting is explained, and nothing else.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, f := range fields {
		require.NotEmpty(t, help[f.key], f.key)
	}
	require.Len(t, help, len(fields))
}
