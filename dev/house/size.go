package main

import (
	"fmt"
	"go/ast"
	"strings"
)

func (t *tree) packages(allowed map[string]bool) []Package {
	byPath := map[string]*Package{}
	for _, f := range t.code() {
		p := byPath[f.dir()]
		if p == nil {
			p = &Package{Path: f.dir(), Allowed: allowed[f.dir()]}
			byPath[f.dir()] = p
		}
		p.Files++
		p.Lines += len(f.lines)
	}
	out := make([]Package, 0, len(byPath))
	for _, p := range byPath {
		out = append(out, *p)
	}
	return bySize(out, func(p Package) int { return p.Lines }, func(p Package) string { return p.Path })
}

func (t *tree) longestFiles(most int) []Sized {
	var out []Sized
	for _, f := range t.code() {
		out = append(out, Sized{f.path, len(f.lines)})
	}
	out = bySize(out, Sized.size, Sized.name)
	return out[:min(most, len(out))]
}

func (s Sized) size() int    { return s.Lines }
func (s Sized) name() string { return s.Name }

// functions returns every function that has a body, longest first.
func (t *tree) functions() []Sized {
	var out []Sized
	for _, f := range t.code() {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				name := fmt.Sprintf("%s:%d %s", f.path, t.line(fn.Pos()), fn.Name.Name)
				out = append(out, Sized{name, t.functionLines(f, fn)})
			}
		}
	}
	return bySize(out, Sized.size, Sized.name)
}

// functionLines counts the lines between the braces that are not whole comments.
func (t *tree) functionLines(f *file, fn *ast.FuncDecl) int {
	first, last := t.line(fn.Pos())+1, t.line(fn.End())-1
	n := last - first + 1
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			from, to := t.line(c.Pos()), t.line(c.End())
			alone := strings.HasPrefix(strings.TrimSpace(f.lines[from-1]), "/")
			if from >= first && to <= last && alone {
				n -= to - from + 1
			}
		}
	}
	return n
}

// width counts the wide lines of Go and SQL files, in tests too.
func (t *tree) width() map[string]Wide {
	out := map[string]Wide{}
	for _, f := range t.files {
		kind := "code"
		if f.test {
			kind = "tests"
		}
		w, over := out[kind], 0
		for _, line := range f.lines {
			columns := columns(line)
			if columns > wide {
				w.Over120++
			}
			if columns > tooWide {
				over++
			}
		}
		w.Over140 += over
		if over > 0 {
			w.Where = append(w.Where, Sized{f.path, over})
		}
		out[kind] = w
	}
	for _, w := range out {
		bySize(w.Where, Sized.size, Sized.name)
	}
	return out
}

// columns is the width of a line. A tab counts as four.
func columns(line string) int {
	n := 0
	for _, r := range line {
		n++
		if r == '\t' {
			n += 3
		}
	}
	return n
}
