package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// extractor returns the function that extracts the prose of a file, or nil for a file that has none or that the
// linter reads itself.
func extractor(path string) func([]byte) ([]string, error) {
	if strings.Contains(path, "testdata/") {
		return nil // samples, not our words
	}
	switch filepath.Ext(path) {
	case ".go":
		// Tests have sample data in their strings. Generated files repeat the words of their source.
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".gen.go") {
			return nil
		}
		return goStrings
	case ".sql":
		return func(source []byte) ([]string, error) { return comments(source, sqlComment), nil }
	case ".sh", ".py":
		return func(source []byte) ([]string, error) { return comments(source, shellComment), nil }
	case "":
		if path == "Makefile" || strings.HasPrefix(path, "dev/") || strings.HasPrefix(path, ".ci/") {
			return func(source []byte) ([]string, error) { return comments(source, shellComment), nil }
		}
	case ".yaml":
		if path == ".golangci.yaml" {
			return func(source []byte) ([]string, error) { return comments(source, shellComment), nil }
		}
	}
	return nil
}

var (
	sqlComment   = regexp.MustCompile(`(?:^|\s)--\s+(.*)$`)
	shellComment = regexp.MustCompile(`(?:^|\s)##?@?\s+(.*)$`)
)

// comments returns the comments of a source, at their lines.
func comments(source []byte, comment *regexp.Regexp) []string {
	lines := strings.Split(string(source), "\n")
	for i, line := range lines {
		lines[i] = ""
		if m := comment.FindStringSubmatch(line); m != nil {
			lines[i] = m[1]
		}
	}
	return lines
}

// separator follows a string that does not continue in the next one.
const separator = " |"

// goStrings returns the strings of Go code that have several words, at their lines. Raw strings are SQL, help or
// field tags: the help and the API description are read whole elsewhere.
func goStrings(source []byte) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, 0)
	if err != nil {
		return nil, err
	}
	lines := make([]string, bytes.Count(source, []byte("\n"))+1)
	continued := make(map[*ast.BasicLit]bool) // followed by + and another string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			ast.Inspect(n.X, func(x ast.Node) bool {
				if literal, ok := x.(*ast.BasicLit); ok {
					continued[literal] = true
				}
				return true
			})
		case *ast.BasicLit:
			value, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || n.Value[0] != '"' || err != nil || !strings.Contains(strings.TrimSpace(value), " ") {
				return true
			}
			if !continued[n] {
				value += separator
			}
			i := files.Position(n.Pos()).Line - 1
			lines[i] += strings.ReplaceAll(value, "\n", separator+" ")
		}
		return true
	})
	return lines, nil
}
