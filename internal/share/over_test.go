package share_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/share"
)

// Only who has an equal part of what there is, or more, is over. One who needs little is not.
func TestOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used map[string]int
		over []string
	}{
		{nil, nil},
		{map[string]int{"large": 99}, nil},
		{map[string]int{"large": 100}, []string{"large"}},
		{map[string]int{"small": 1, "large": 98}, nil},
		{map[string]int{"small": 1, "large": 99}, []string{"large"}},
		{map[string]int{"small": 1, "large": 1000}, []string{"large"}},
		{map[string]int{"small": 1, "middle": 30, "large": 35, "larger": 500}, []string{"large", "larger"}},
	} {
		require.Equal(t, c.over, share.Over(c.used, 100), "%v", c.used)
	}
}
