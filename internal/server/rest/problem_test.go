package rest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestASlowRequestIsToBeNarrowed: one that is always too slow would be retried for ever.
func TestASlowRequestIsToBeNarrowed(t *testing.T) {
	t.Parallel()
	a := &API{opts: Options{Classify: func(error) ErrorClass { return Slow }}}
	p := a.logged(errors.New("canceling statement due to statement timeout"))
	require.Equal(t, "unavailable", p.Code)
	require.Contains(t, p.Detail, "ask for less")
}
