package problem_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/problem"
)

func TestAll(t *testing.T) {
	t.Parallel()
	var c problem.Checker
	require.NoError(t, c.Err())
	require.Empty(t, problem.All(nil))
	require.Empty(t, problem.All(errors.New("not a problem")))
	c.Add("name", "it is empty", "give the job a name")
	c.Add("labels", "too many", "")
	err := fmt.Errorf("create: %w", errors.Join(errors.New("other"), c.Err()))
	require.Equal(t, []*problem.Problem{
		problem.New("name", "it is empty", "give the job a name"), problem.New("labels", "too many", ""),
	}, problem.All(err))
	require.EqualError(t, c.Err(), "name: it is empty; give the job a name\nlabels: too many")
}

func TestQuote(t *testing.T) {
	t.Parallel()
	require.Equal(t, `"a\n\x1b"`, problem.Quote("a\n\x1b"))
	require.Equal(t, `"`+strings.Repeat("ä", 60)+`"`, problem.Quote(strings.Repeat("ä", 60)))
	require.Equal(t, `"`+strings.Repeat("ä", 60)+`…"`, problem.Quote(strings.Repeat("ä", 61)))
}

func TestChecks(t *testing.T) {
	t.Parallel()
	var c problem.Checker
	problem.Between(&c, "priority", 10, [2]int{0, 9})
	problem.Between(&c, "fits", 9, [2]int{0, 9})
	problem.AtLeastZero(&c, "max_running", -1, "0 means no limit")
	problem.AtLeastZero(&c, "fits", 0, "")
	problem.OneOf(&c, "kind", "drop", "redrive", "discard", "keep")
	problem.OneOf(&c, "fits", "keep", "redrive", "discard", "keep")
	require.EqualError(t, c.Err(), "priority: 10 is out of range; use 0 to 9\n"+
		"max_running: -1 is negative; use 0 or more; 0 means no limit\n"+
		`kind: unknown value "drop"; use redrive, discard or keep`)
}
