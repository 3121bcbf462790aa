package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The goals.
const (
	maxPackage  = 3000 // lines, unless docs/architecture.md gives a reason
	maxMethods  = 46   // exported methods of one store type
	maxFunction = 70   // lines without comments, as funlen counts them
	wide        = 120  // columns: the width to write at
	tooWide     = 140  // columns: no line of code is wider
	minRepeated = 8    // lines that make a duplicate
)

// Report is everything that house counts. Test code is counted only where a field says so.
type Report struct {
	Packages   []Package       `json:"packages"`
	Stores     []Store         `json:"stores"`
	Functions  int             `json:"functions"`
	Long       []Sized         `json:"long_functions"`
	Width      map[string]Wide `json:"width"` // by "code" and "tests"
	Files      []Sized         `json:"longest_files"`
	SQL        SQL             `json:"sql"`
	Inserts    []Insert        `json:"inserts"`
	Schema     Schema          `json:"schema"`
	Background []Background    `json:"background"`
	Copies     []Copy          `json:"duplicates"`
	Broken     []string        `json:"broken_names_in_documents"`
	Missed     []string        `json:"missed_goals"`
}

// Package is a directory of Go files.
type Package struct {
	Path    string `json:"path"`
	Files   int    `json:"files"`
	Lines   int    `json:"lines"`
	Allowed bool   `json:"allowed,omitempty"` // docs/architecture.md says why it is over the goal
}

// Sized is a file or a function.
type Sized struct {
	Name  string `json:"name"`
	Lines int    `json:"lines"`
}

// Wide counts wide lines.
type Wide struct {
	Over120 int     `json:"over_120"`
	Over140 int     `json:"over_140"`
	Where   []Sized `json:"over_140_by_file"` // how many such lines, most first
}

// inspect reports on the checkout in dir.
func inspect(dir string) (Report, error) {
	t, err := read(dir)
	if err != nil {
		return Report{}, err
	}
	architecture, err := os.ReadFile(filepath.Join(dir, "docs", "architecture.md"))
	if err != nil && !os.IsNotExist(err) {
		return Report{}, err
	}
	functions := t.functions()
	r := Report{
		Packages:   t.packages(allowedPackages(string(architecture))),
		Stores:     t.stores(),
		Functions:  len(functions),
		Width:      t.width(),
		Files:      t.longestFiles(5),
		SQL:        t.sql(),
		Inserts:    t.inserts("run", "run_history"),
		Schema:     t.schema(),
		Background: t.background(),
		Copies:     copies(t.code()),
	}
	for _, f := range functions {
		if f.Lines > maxFunction {
			r.Long = append(r.Long, f)
		}
	}
	if r.Broken, err = brokenNames(dir); err != nil {
		return Report{}, err
	}
	r.Missed = r.missed()
	return r, nil
}

var quoted = regexp.MustCompile("`([^`]+)`")

// allowedPackages returns the paths that the section "Packages over 3,000 lines" of the document names.
func allowedPackages(document string) map[string]bool {
	out := map[string]bool{}
	inside := false
	for line := range strings.Lines(document) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			inside = strings.HasPrefix(title, "Packages over 3,000 lines")
		} else if inside {
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				out[strings.TrimSuffix(m[1], "/")] = true
			}
		}
	}
	return out
}

func (r Report) missed() []string {
	out := []string{}
	miss := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, p := range r.Packages {
		if p.Lines > maxPackage && !p.Allowed {
			miss("%s has %d lines, goal %d (or a reason in docs/architecture.md)", p.Path, p.Lines, maxPackage)
		}
	}
	for _, s := range r.Stores {
		if s.Methods > maxMethods {
			miss("%s has %d exported methods, goal %d", s.Name, s.Methods, maxMethods)
		}
	}
	if n := len(r.Long); n > 0 {
		miss("%d functions have more than %d lines, goal 0", n, maxFunction)
	}
	for _, kind := range []string{"code", "tests"} {
		if n := r.Width[kind].Over140; n > 0 {
			miss("%s: %d lines are wider than %d columns, goal 0", kind, n, tooWide)
		}
	}
	if n := len(r.Broken); n > 0 {
		miss("%d paths and links in documents lead nowhere, goal 0", n)
	}
	return out
}

func bySize[T any](s []T, size func(T) int, name func(T) string) []T {
	slices.SortFunc(s, func(a, b T) int {
		if d := size(b) - size(a); d != 0 {
			return d
		}
		return strings.Compare(name(a), name(b))
	})
	return s
}
