package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	namedPath = regexp.MustCompile("`((?:api|cmd|deploy|dev|docs|internal|sdk|test|web)/[A-Za-z0-9_./-]+)`")
	link      = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
)

// brokenNames lists what the Markdown files name and link to that is not there, as "file:line name". The changelog is
// history and stays as it is.
func brokenNames(dir string) ([]string, error) {
	out := []string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(dir, name):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".md" || d.Name() == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			for _, missing := range missingIn(dir, name, line) {
				relative, _ := filepath.Rel(dir, name) // WalkDir joins names to dir
				out = append(out, fmt.Sprintf("%s:%d %s", filepath.ToSlash(relative), number, missing))
			}
		}
		return nil
	})
	return out, err
}

// missingIn returns the names of one line that are not there. Paths are relative to the root, links to their file.
func missingIn(dir, document, line string) []string {
	var out []string
	check := func(from, name string) {
		if _, err := os.Stat(filepath.Join(from, filepath.FromSlash(name))); err != nil {
			out = append(out, name)
		}
	}
	for _, m := range namedPath.FindAllStringSubmatch(line, -1) {
		if !strings.Contains(m[1], "NAME") { // stands for any of several
			check(dir, m[1])
		}
	}
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		check(filepath.Dir(document), m[1])
	}
	return out
}
