package start

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClaimsReturnTheSameColumns: one function reads what a claim, a start and a resolved claim return.
func TestClaimsReturnTheSameColumns(t *testing.T) {
	t.Parallel()
	columns := func(text string) string {
		_, rest, found := strings.Cut(text, "\n)\nSELECT c.partition")
		require.True(t, found)
		return rest
	}
	require.Equal(t, columns(claimRuns), columns(startRuns))
	require.Equal(t, columns(claimRuns), columns(resolveRuns))
}
