package terminal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a terminal, progress is a line every few seconds.
func TestProgressWithoutATerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := NewProgress(&out, "apply", 10)
	p.Set(1, 10)
	require.Empty(t, out.String(), "not at once")
	p.lastLine -= lineEvery
	p.Set(2, 10)
	p.Set(3, 10)
	p.End()
	p.End()
	require.Equal(t, "apply: 2 of 10\n", out.String())
}
