package postgres

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func eachQuery(t *testing.T, check func(t *testing.T, name, text string)) {
	t.Helper()
	files, err := filepath.Glob("query/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	rooms, err := filepath.Glob("../path/*/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, rooms)
	for _, name := range slices.Concat(files, rooms) {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			check(t, name, string(b))
		})
	}
}

// A number that stands for a state, a rule or a kind means nothing to a reader, so
// its name follows in a comment.
var bareCode = regexp.MustCompile(`\b(state|admit|kind|limit_kind|ended)\b (=|<>) \d+\b.?`)

// TestQueriesAreReadable: each file begins with what it does, fits 120 columns, and
// names the codes that it uses.
func TestQueriesAreReadable(t *testing.T) {
	t.Parallel()
	eachQuery(t, func(t *testing.T, _, text string) {
		require.Regexp(t, `^-- [A-Z][a-z ]+: `, text)
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			require.LessOrEqual(t, len([]rune(line)), 120, line)
			requireNamedCodes(t, line)
		}
	})
}

// TestStatementsNameTheirCodes is TestQueriesAreReadable for the statements that stand in Go files.
func TestStatementsNameTheirCodes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	cellar, err := filepath.Glob("../store/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, cellar)
	rooms, err := filepath.Glob("../path/*/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, rooms)
	for _, name := range slices.Concat(files, cellar, rooms) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(b)) {
			requireNamedCodes(t, line)
		}
	}
}

func requireNamedCodes(t *testing.T, line string) {
	t.Helper()
	for _, at := range bareCode.FindAllStringIndex(line, -1) {
		require.Regexp(t, `^ ?/\* [a-z ]+ \*/`, line[at[1]-1:], "name the code in: %s", line)
	}
}
