package main

import (
	"fmt"
	"go/ast"
	"strings"
	"unicode"
)

// Copy is a run of lines that occurs in two places.
type Copy struct {
	Lines  int    `json:"lines"` // without blanks, comments and lone punctuation
	First  string `json:"first"`
	Second string `json:"second"`
	Text   string `json:"text"` // its first line
}

// place is one line that counts for duplicates.
type place struct {
	file *file
	line int
	text string
}

// copies finds runs of at least minRepeated identical lines. Each line belongs to one copy at most: the longest that
// begins before it.
func copies(files []*file) []Copy {
	var all []place
	for _, f := range files {
		all = append(all, significant(f)...)
	}
	windows := map[string][]int{} // where the same minRepeated lines began before
	var out []Copy
	covered := 0
	for i := 0; i+minRepeated <= len(all); i++ {
		key, ok := window(all, i)
		if !ok {
			continue
		}
		if i >= covered {
			if from, n := longest(all, windows[key], i); n > 0 {
				out = append(out, Copy{n, all[from].where(), all[i].where(), all[i].text})
				covered = i + n
			}
		}
		windows[key] = append(windows[key], i)
	}
	return bySize(out, func(c Copy) int { return c.Lines }, func(c Copy) string { return c.First + c.Second })
}

func (p place) where() string { return fmt.Sprintf("%s:%d", p.file.path, p.line) }

// window is the text of minRepeated lines of one file.
func window(all []place, i int) (string, bool) {
	var b strings.Builder
	for _, p := range all[i : i+minRepeated] {
		if p.file != all[i].file {
			return "", false
		}
		b.WriteString(p.text)
		b.WriteByte('\n')
	}
	return b.String(), true
}

// longest returns which of the earlier places has most lines in common with the lines at i, without overlap.
func longest(all []place, earlier []int, i int) (from, most int) {
	for _, e := range earlier {
		n := 0
		for i+n < len(all) && e+n < i && all[i+n].text == all[e+n].text &&
			all[i+n].file == all[i].file && all[e+n].file == all[e].file {
			n++
		}
		if n >= minRepeated && n > most {
			from, most = e, n
		}
	}
	return from, most
}

// significant returns the lines of a file without blanks, comments, imports, the package clause and lone punctuation.
func significant(f *file) []place {
	skip := make([]bool, len(f.lines)+1)
	for _, d := range f.syntax.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok.String() == "import" {
			from, to := lineOf(f, int(g.Pos())), lineOf(f, int(g.End()))
			for l := from; l <= to; l++ {
				skip[l] = true
			}
		}
	}
	var out []place
	for i, line := range f.lines {
		text := strings.TrimSpace(line)
		if skip[i+1] || strings.HasPrefix(text, "//") || strings.HasPrefix(text, "package ") || !hasWord(text) {
			continue
		}
		out = append(out, place{f, i + 1, text})
	}
	return out
}

func lineOf(f *file, pos int) int {
	offset := pos - int(f.syntax.FileStart)
	for i, line := range f.lines {
		if offset -= len(line) + 1; offset < 0 {
			return i + 1
		}
	}
	return len(f.lines)
}

func hasWord(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0
}
