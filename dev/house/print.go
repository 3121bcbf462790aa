package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// text writes the report for people: aligned, with a mark at each goal that is missed.
func text(w io.Writer, r Report) error {
	p := &printer{}
	p.packages(r)
	p.code(r)
	p.sql(r)
	p.background(r)
	p.copies(r)
	p.title("Paths and links in documents that lead nowhere (goal 0)")
	p.row(len(r.Broken), "names%s", mark(len(r.Broken) > 0))
	for _, b := range r.Broken {
		p.line("        %s", b)
	}
	p.title("Goals")
	for _, m := range r.Missed {
		p.line("missed: %s", m)
	}
	if len(r.Missed) == 0 {
		p.line("all met")
	}
	_, err := p.WriteTo(w)
	return err
}

type printer struct{ bytes.Buffer }

func (p *printer) title(format string, args ...any) {
	fmt.Fprintf(&p.Buffer, "\n"+format+"\n", args...)
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(&p.Buffer, "  "+format+"\n", args...) }

// row is a number and what it counts.
func (p *printer) row(n int, format string, args ...any) {
	fmt.Fprintf(&p.Buffer, "%8d  %s\n", n, fmt.Sprintf(format, args...))
}

func mark(missed bool) string {
	if missed {
		return "   <-- over the goal"
	}
	return ""
}

func (p *printer) packages(r Report) {
	p.title("Packages by lines of Go (without tests and generated files; goal %d)", maxPackage)
	total := 0
	for _, one := range r.Packages {
		total += one.Lines
		text := mark(one.Lines > maxPackage)
		if text != "" && one.Allowed {
			text = "   (docs/architecture.md says why)"
		}
		p.row(one.Lines, "%s%s", one.Path, text)
	}
	p.row(total, "in all")

	p.title("Exported methods of store types (goal %d)", maxMethods)
	for _, s := range r.Stores {
		p.row(s.Methods, "%s%s", s.Name, mark(s.Methods > maxMethods))
	}
}

func (p *printer) code(r Report) {
	p.title("Functions over %d lines (goal 0 of %d)", maxFunction, r.Functions)
	p.row(len(r.Long), "functions%s", mark(len(r.Long) > 0))
	for _, f := range r.Long {
		p.row(f.Lines, "%s", f.Name)
	}

	p.title("Wide lines in Go and SQL")
	for _, kind := range []string{"code", "tests"} {
		w := r.Width[kind]
		p.row(w.Over120, "%s, over %d columns", kind, wide)
		p.row(w.Over140, "%s, over %d columns%s", kind, tooWide, mark(w.Over140 > 0))
		for _, f := range w.Where[:min(5, len(w.Where))] {
			p.row(f.Lines, "    in %s", f.Name)
		}
	}

	p.title("Longest files")
	for _, f := range r.Files {
		p.row(f.Lines, "%s", f.Name)
	}
}

func (p *printer) sql(r Report) {
	p.title("SQL")
	p.row(r.SQL.FileLines, "lines in .sql files, without migrations")
	p.row(r.SQL.GoLines, "lines in Go")
	p.row(r.SQL.Pieces, "back-quoted pieces in Go")
	p.row(r.SQL.Concatenated, "of them joined with +")
	for _, table := range []string{"run", "run_history"} {
		total, files := 0, []string{}
		for _, i := range r.Inserts {
			if i.Table == table {
				total += i.Statements
				files = append(files, fmt.Sprintf("%s %d", i.File[strings.LastIndex(i.File, "/")+1:], i.Statements))
			}
		}
		p.row(total, "statements insert into %s: %s", table, strings.Join(files, ", "))
	}

	p.title("Schema")
	p.row(r.Schema.Migrations, "migrations, %d lines", r.SQL.Migration)
	p.row(len(r.Schema.Tables), "tables, of %d CREATE TABLE", r.Schema.Creates)
	p.row(r.Schema.Columns, "columns")
	p.row(r.Schema.Indexes, "indexes, without those of keys")
	names := slices.SortedFunc(maps.Keys(r.Schema.Tables), func(a, b string) int {
		if d := r.Schema.Tables[b] - r.Schema.Tables[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, name := range names[:min(3, len(names))] {
		p.row(r.Schema.Tables[name], "columns in %s", name)
	}
}

func (p *printer) background(r Report) {
	starts, loops := 0, 0
	for _, b := range r.Background {
		starts += len(b.Starts)
		loops += len(b.Loops)
	}
	p.title("Background work in internal: %d places start goroutines, %d loops are of internal/loop", starts, loops)
	for _, b := range r.Background {
		p.row(len(b.Starts), "%s", b.Package)
		if len(b.Loops) > 0 {
			p.line("        loops: %s", strings.Join(b.Loops, ", "))
		}
		for _, s := range b.Starts {
			p.line("        %s", s)
		}
	}
}

func (p *printer) copies(r Report) {
	p.title("Duplicates: runs of %d or more identical lines", minRepeated)
	p.row(len(r.Copies), "runs")
	for _, c := range r.Copies[:min(10, len(r.Copies))] {
		p.row(c.Lines, "%s = %s", c.First, c.Second)
	}
}
