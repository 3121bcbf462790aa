package job_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestStorable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ab", job.Storable("a\x00b", 10))
	require.Equal(t, "a\uFFFDb", job.Storable("a\xffb", 10))
	require.Equal(t, "ää", job.Storable("äää", 5))
	require.Equal(t, strings.Repeat("x", 10), job.Storable(strings.Repeat("x", 20), 10))
}
