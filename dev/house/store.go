package main

import (
	"go/ast"
	"path"
)

// Store is an exported struct type of internal/postgres that has methods.
type Store struct {
	Name    string `json:"name"`
	Methods int    `json:"methods"`
}

// declared is one type of a package: whether it is a struct, its exported methods, and the types it embeds.
type declared struct {
	isStruct bool
	methods  map[string]bool
	embeds   []string
}

// stores counts the exported methods of the exported struct types below internal/postgres. Methods that a type gets
// by embedding another type of its package count too, so that moving methods to an embedded type hides nothing.
func (t *tree) stores() []Store {
	packages := map[string]map[string]*declared{}
	for _, f := range t.code() {
		if f.in("internal/postgres") {
			if packages[f.dir()] == nil {
				packages[f.dir()] = map[string]*declared{}
			}
			declare(packages[f.dir()], f.syntax)
		}
	}
	var out []Store
	for dir, types := range packages {
		for name, d := range types {
			if !d.isStruct || !ast.IsExported(name) {
				continue
			}
			if n := len(promoted(types, name, map[string]bool{})); n > 0 {
				out = append(out, Store{path.Base(dir) + "." + name, n})
			}
		}
	}
	return bySize(out, func(s Store) int { return s.Methods }, func(s Store) string { return s.Name })
}

// declare adds the types and methods of one file to those of its package.
func declare(types map[string]*declared, syntax *ast.File) {
	get := func(name string) *declared {
		if types[name] == nil {
			types[name] = &declared{methods: map[string]bool{}}
		}
		return types[name]
	}
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil && d.Name.IsExported() {
				get(typeName(d.Recv.List[0].Type)).methods[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				ts, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if s, ok := ts.Type.(*ast.StructType); ok {
					one := get(ts.Name.Name)
					one.isStruct = true
					for _, field := range s.Fields.List {
						if len(field.Names) == 0 {
							one.embeds = append(one.embeds, typeName(field.Type))
						}
					}
				}
			}
		}
	}
}

// typeName is the bare name of a type of the same package: *Store[T] is Store.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func promoted(types map[string]*declared, name string, seen map[string]bool) map[string]bool {
	out := map[string]bool{}
	d := types[name]
	if d == nil || seen[name] {
		return out
	}
	seen[name] = true
	for m := range d.methods {
		out[m] = true
	}
	for _, e := range d.embeds {
		for m := range promoted(types, e, seen) {
			out[m] = true
		}
	}
	return out
}
