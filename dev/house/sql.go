package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// SQL says how much SQL there is, and where it is written.
type SQL struct {
	FileLines    int `json:"lines_in_sql_files"` // without migrations
	Migration    int `json:"lines_in_migrations"`
	GoLines      int `json:"lines_in_go"`
	Pieces       int `json:"back_quoted_pieces"`
	Concatenated int `json:"concatenated_pieces"`
}

// Insert is a file that inserts into a table.
type Insert struct {
	Table      string `json:"table"`
	File       string `json:"file"`
	Statements int    `json:"statements"`
}

// keyword recognises SQL by its capitals. Messages in Go are in lower case.
var keyword = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|JOIN|ORDER BY|GROUP BY|RETURNING|` +
	`VALUES|CREATE|ALTER|DROP|GRANT|COPY|TRUNCATE|VACUUM|ANALYZE|BEGIN|COMMIT|SET LOCAL|LIMIT|AND|OR|IN|IS NULL|` +
	`CASE|AS|EXISTS)\b`)

// piece is a string literal of SQL.
type piece struct {
	file         *file
	text         string
	lines        int
	backQuoted   bool
	concatenated bool
}

func (t *tree) sql() SQL {
	var out SQL
	for _, f := range t.files {
		switch {
		case f.syntax != nil:
		case isMigration(f):
			out.Migration += len(f.lines)
		default:
			out.FileLines += len(f.lines)
		}
	}
	for _, p := range t.pieces() {
		out.GoLines += p.lines
		if p.backQuoted {
			out.Pieces++
			if p.concatenated {
				out.Concatenated++
			}
		}
	}
	return out
}

func isMigration(f *file) bool { return strings.Contains("/"+f.dir()+"/", "/migration/") }

// pieces returns the literals of SQL in the packages that may speak it.
func (t *tree) pieces() []piece {
	var out []piece
	for _, f := range t.code() {
		if !f.in("internal/postgres", "internal/bench") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.ADD {
					out = append(out, sqlOf(f, literals(n), true)...)
					return false
				}
			case *ast.BasicLit:
				out = append(out, sqlOf(f, []*ast.BasicLit{n}, false)...)
			}
			return true
		})
	}
	return out
}

// literals returns the string literals of an expression such as a + b + f(c), in order.
func literals(e ast.Expr) []*ast.BasicLit {
	var out []*ast.BasicLit
	ast.Inspect(e, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok {
			out = append(out, l)
		}
		return true
	})
	return out
}

// sqlOf returns the literals of one expression as pieces if any of them looks like SQL: the rest is then SQL too.
func sqlOf(f *file, parts []*ast.BasicLit, concatenated bool) []piece {
	var out []piece
	found := false
	for _, l := range parts {
		text, err := strconv.Unquote(l.Value)
		if l.Kind != token.STRING || err != nil {
			continue
		}
		found = found || keyword.MatchString(text)
		lines := len(strings.Split(strings.Trim(text, "\n"), "\n"))
		out = append(out, piece{f, text, lines, l.Value[0] == '`', concatenated})
	}
	if !found {
		return nil
	}
	return out
}

// inserts lists the files with statements that insert into the tables, without migrations.
func (t *tree) inserts(tables ...string) []Insert {
	var out []Insert
	for _, table := range tables {
		statement := regexp.MustCompile(`(?i)\bINSERT\s+INTO\s+` + table + `\b`)
		counts := map[string]int{}
		for _, p := range t.pieces() {
			counts[p.file.path] += len(statement.FindAllString(p.text, -1))
		}
		for _, f := range t.files {
			if f.syntax == nil && !f.test && !isMigration(f) {
				counts[f.path] += len(statement.FindAllString(withoutComments(strings.Join(f.lines, "\n")), -1))
			}
		}
		var found []Insert
		for name, n := range counts {
			if n > 0 {
				found = append(found, Insert{table, name, n})
			}
		}
		found = bySize(found, func(i Insert) int { return i.Statements }, func(i Insert) string { return i.File })
		out = append(out, found...)
	}
	return out
}
