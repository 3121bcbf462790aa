package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Background lists what a package runs in the background.
type Background struct {
	Package string   `json:"package"`
	Starts  []string `json:"starts"` // "file:line what" of each go statement and call of a method Go
	Loops   []string `json:"loops"`  // names of its loop.Loop values
}

// background finds the places in internal that start goroutines, and the loops made with internal/loop.
func (t *tree) background() []Background {
	found := map[string]*Background{}
	for _, f := range t.code() {
		if !f.in("internal") {
			continue
		}
		b := found[f.dir()]
		if b == nil {
			b = &Background{Package: f.dir(), Starts: []string{}, Loops: []string{}}
			found[f.dir()] = b
		}
		b.Starts = append(b.Starts, t.starts(f)...)
		b.Loops = append(b.Loops, loops(f.syntax)...)
	}
	var out []Background
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if b := found[dir]; len(b.Starts)+len(b.Loops) > 0 {
			out = append(out, *b)
		}
	}
	return bySize(out, func(b Background) int { return len(b.Starts) }, func(b Background) string { return b.Package })
}

func (t *tree) starts(f *file) []string {
	var out []string
	add := func(n ast.Node, started ast.Expr) {
		at := t.fset.Position(n.Pos())
		name := at.Filename[strings.LastIndex(at.Filename, "/")+1:]
		out = append(out, name+":"+strconv.Itoa(at.Line)+" "+startedBy(started))
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, n.Call.Fun)
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
				add(n, n.Args[0])
			}
		}
		return true
	})
	return out
}

// startedBy names what a goroutine runs: of a function literal, its first call.
func startedBy(e ast.Expr) string {
	literal, ok := e.(*ast.FuncLit)
	if !ok {
		return types.ExprString(e)
	}
	call := "func"
	ast.Inspect(literal.Body, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && call == "func" {
			call = types.ExprString(c.Fun)
			if strings.HasPrefix(call, "(func") {
				call = "func literal"
			}
		}
		return call == "func"
	})
	return call
}

// loops returns the names of the composite literals of loop.Loop, also in slices and maps of them.
func loops(syntax *ast.File) []string {
	var out []string
	ast.Inspect(syntax, func(n ast.Node) bool {
		c, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch kind := c.Type.(type) {
		case *ast.ArrayType:
			if isLoop(kind.Elt) {
				out = append(out, elements(c)...)
			}
		case *ast.MapType:
			if isLoop(kind.Value) {
				out = append(out, elements(c)...)
			}
		default:
			switch {
			case isOf(c.Type, "Group"): // a slice of Loop
				out = append(out, elements(c)...)
			case isLoop(c.Type):
				out = append(out, nameOf(c))
			}
		}
		return true
	})
	return out
}

func isLoop(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	return isOf(e, "Loop")
}

// isOf reports whether a type is the named one of package loop.
func isOf(e ast.Expr, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "loop"
}

// elements names those elements of a slice or map whose type is left out. The others are found on their own.
func elements(c *ast.CompositeLit) []string {
	var out []string
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			e = kv.Value
		}
		if one, ok := e.(*ast.CompositeLit); ok && one.Type == nil {
			out = append(out, nameOf(one))
		}
	}
	return out
}

func nameOf(c *ast.CompositeLit) string {
	for _, e := range c.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := kv.Key.(*ast.Ident); !ok || key.Name != "Name" {
			continue
		}
		if l, ok := kv.Value.(*ast.BasicLit); ok && l.Kind == token.STRING {
			return strings.Trim(l.Value, "\"`")
		}
		return types.ExprString(kv.Value)
	}
	return "(no name)"
}
