package rest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFewProblemsAreExplained: as many as the caller lists. Each names the most similar members, which takes long.
func TestFewProblemsAreExplained(t *testing.T) {
	t.Parallel()
	type part struct {
		Name string `json:"name"`
	}
	validate := Validator[part](New(Options{}))
	for most, listed := range map[int]int{1: 1, 2: 2, 1000: 4} {
		p, ok := validate([]byte(`{"nam":1,"nme":2,"ame":3}`), most).(*Problem) //nolint:errorlint // it is not wrapped
		require.True(t, ok)
		require.Len(t, p.Problems, listed)
		require.Equal(t, 4-listed, p.More(), "three unknown members and a missing one")
	}
}
