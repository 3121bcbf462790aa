package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cell of tests: a place in backticks, then functions in backticks or titles in quotes.
var (
	testPlace = regexp.MustCompile("`([a-z][a-z0-9/.]*)`: ([^·|]+)")
	testName  = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`|\"([^\"]+)\"")
)

// missingTests returns the tests that a page names and the tree does not have, and how many rows name one that it has.
func missingTests(t *testing.T, page string) (missing []string, rows int) {
	t.Helper()
	for line := range strings.SplitSeq(page, "\n") {
		found := 0
		for _, place := range testPlace.FindAllStringSubmatch(line, -1) {
			text := testsIn(t, place[1])
			for _, name := range testName.FindAllStringSubmatch(place[2], -1) {
				want := "func " + name[1] + "("
				if name[2] != "" {
					want = "test('" + name[2] + "'"
				}
				if strings.Contains(text, want) {
					found++
				} else {
					missing = append(missing, place[1]+": "+name[1]+name[2])
				}
			}
		}
		if found > 0 {
			rows++
		}
	}
	return missing, rows
}

// testsIn returns the text of a file, or of all tests in a directory.
func testsIn(t *testing.T, place string) string {
	t.Helper()
	files := []string{filepath.Join(root, place)}
	if !strings.HasSuffix(place, ".ts") {
		var err error
		files, err = filepath.Glob(filepath.Join(root, place, "*_test.go"))
		require.NoError(t, err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// TestSecurityTestsExist: each property on the page has tests, and all that it names exist.
func TestSecurityTestsExist(t *testing.T) {
	t.Parallel()
	page := readPage(t, "docs/reference/security-tests.md")
	missing, rows := missingTests(t, page)
	require.Empty(t, missing)
	require.Equal(t, strings.Count(page, "\n| ")-1, rows, "each row but the header names tests")
	require.Equal(t, 20, rows)

	missing, rows = missingTests(t, "| 1 | x | `test/docs`: `TestNoSuchTest`, \"no title\" |")
	require.Len(t, missing, 2, "it finds what is missing")
	require.Zero(t, rows)
}
