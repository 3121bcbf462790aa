package terminal

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLayout(t *testing.T) {
	t.Parallel()
	headers := []string{"NAME", "STATE", "WHY", "RUN"}
	rows := [][]string{
		{"日本の仕事", Green.Render("active"), "a reason that is quite long, as reasons are", "run_0123456789"},
		{"b", "x", "-", "run_1"},
	}
	wide := layout(headers, rows, 0)
	require.Len(t, wide, 3)
	require.Equal(t, 10+2+6+2+43+2, strings.Index(wide[2], "run_1"),
		"aligned: colours and wide characters count as they appear")
	require.NotContains(t, strings.Join(wide, "\n"), " \n", "no spaces at the end")
	for _, width := range []int{80, 60, 50} {
		lines := layout(headers, rows, width)
		require.Len(t, lines, 3)
		require.Contains(t, lines[1], "run_0123456789", "ids are not cut")
		require.Contains(t, lines[1], "active")
	}
	require.Contains(t, layout(headers, rows, 60)[1], "…")
	two := layout(headers, rows, 40)
	require.Len(t, two, 5, "ids on lines of their own")
	require.Contains(t, two[1], "run_0123456789")
	narrow := layout(headers, rows, 20)
	require.Len(t, narrow, 9, "a block of lines for each row")
	require.Contains(t, narrow[2], "a reason that is quite long, as reasons are")

	fewer := layout([]string{"ID", "STATE", "BY"}, [][]string{{"key_0123456789", "active", "somebody"}}, 25)
	header := regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(fewer[0], "")
	require.Equal(t, []string{"ID              STATE", "key_0123456789  active"}, []string{header, fewer[1]})
	require.Contains(t, fewer[2], "left out: BY")
}
