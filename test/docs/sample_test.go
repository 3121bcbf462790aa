package docs

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkSample compares a sample of messages ("text like=internal/why") with the code that prints them: each line must
// contain a string of the Go files in one of these directories, with anything in place of its verbs. Lines that begin
// with a digit are headings of results, and lines with a command are parsed.
func checkSample(t *testing.T, b block) error {
	t.Helper()
	dir := b.option("like")
	var patterns []*regexp.Regexp
	for d := range strings.SplitSeq(dir, ",") {
		patterns = append(patterns, printed(t, filepath.Join(root, d))...)
	}
	for line := range strings.Lines(b.text) {
		line = strings.TrimSpace(line)
		if command, ok := strings.CutPrefix(line, "belfry "); ok {
			if err := checkInline(newRoot(), strings.Fields(command)); err != nil {
				return fmt.Errorf("%s: %w", b, err)
			}
			continue
		}
		known := line == "" || line[0] >= '0' && line[0] <= '9'
		for _, p := range patterns {
			known = known || p.MatchString(line)
		}
		if !known {
			return fmt.Errorf("%s: nothing in %s prints %q", b, dir, line)
		}
	}
	return nil
}

var verb = regexp.MustCompile(`%[+#]?[a-z]`)

// printed returns the strings of a package that are long enough to be messages, as patterns.
func printed(t *testing.T, dir string) (out []*regexp.Regexp) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		var s scanner.Scanner
		set := token.NewFileSet()
		s.Init(set.AddFile(name, -1, len(source)), source, nil, 0)
		for {
			_, tok, literal := s.Scan()
			if tok == token.EOF {
				break
			}
			text, err := strconv.Unquote(literal)
			if tok != token.STRING || err != nil || len(verb.ReplaceAllString(text, "")) < 12 {
				continue
			}
			parts := verb.Split(text, -1)
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			out = append(out, regexp.MustCompile(strings.Join(parts, ".+")))
		}
	}
	return out
}
