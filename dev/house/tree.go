package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// tree is a checkout, read whole.
type tree struct {
	fset  *token.FileSet
	files []*file
}

// file is a Go or SQL file that no tool has generated.
type file struct {
	path   string // from the root, with slashes
	lines  []string
	test   bool
	syntax *ast.File // nil for SQL
}

func (f *file) dir() string { return path.Dir(f.path) }

func (f *file) in(dirs ...string) bool {
	for _, dir := range dirs {
		if strings.HasPrefix(f.path, dir+"/") {
			return true
		}
	}
	return false
}

// read parses the Go files and reads the SQL files below dir.
func read(dir string) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(dir, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(name); ext != ".go" && ext != ".sql" {
			return nil
		}
		return t.add(dir, name)
	})
	if err == nil && len(t.files) == 0 {
		err = fmt.Errorf("no Go files in %s", dir)
	}
	return t, err
}

// skipped reports whether a directory holds nothing that was written for the repository.
func skipped(root, dir string) bool {
	base := filepath.Base(dir)
	return dir != root && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "testdata")
}

func (t *tree) add(dir, name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(dir, name)
	if err != nil {
		return err
	}
	f := &file{path: filepath.ToSlash(relative), lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")}
	f.test = isTest(f.path)
	if strings.HasSuffix(name, ".go") {
		f.syntax, err = parser.ParseFile(t.fset, f.path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".gen.go") || ast.IsGenerated(f.syntax) {
			return nil
		}
	}
	t.files = append(t.files, f)
	return nil
}

// isTest reports whether a file is only for tests: by its name, or because it is in test/ or in a package of
// helpers such as pgtest.
func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") ||
		strings.HasSuffix(path.Dir(name), "test")
}

// code returns the Go files that are not tests.
func (t *tree) code() []*file {
	var out []*file
	for _, f := range t.files {
		if f.syntax != nil && !f.test {
			out = append(out, f)
		}
	}
	return out
}

func (t *tree) line(n token.Pos) int { return t.fset.Position(n).Line }
