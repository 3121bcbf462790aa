// Command prose writes the prose that the linter cannot read by itself into a folder, one file for each source:
//
//	help.go              the help of every command
//	internal/….go        strings of Go code: log messages, errors and output
//	internal/….sql.go    comments of SQL
//	Makefile.go …        comments of the Makefile and of shell scripts
//
// Each text is written as a Go comment, because the linter reads adjacent lines of a comment as one text. It keeps the
// line number it has in its source, so a finding leads to it.
//
//	go run ./dev/prose .tools/prose
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfry-dev/belfry/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: prose FOLDER")
		os.Exit(2)
	}
	if err := collect(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// collect replaces the folder with the current prose.
func collect(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	var help bytes.Buffer
	writeHelp(&help, cli.New("dev"))
	if err := write(filepath.Join(folder, "help.go"), strings.Split(help.String(), "\n")); err != nil {
		return err
	}
	listed, err := exec.CommandContext(context.Background(), "git", "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for path := range strings.SplitSeq(string(listed), "\x00") {
		extract := extractor(path)
		if extract == nil {
			continue
		}
		source, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return err
		}
		text, err := extract(source)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := write(filepath.Join(folder, strings.TrimSuffix(path, ".go")+".go"), text); err != nil {
			return err
		}
	}
	return nil
}

// write writes the lines of a text as comments. A text without words has no file.
func write(path string, lines []string) error {
	var text bytes.Buffer
	words := false
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			text.WriteString("// " + line)
			words = true
		}
		text.WriteByte('\n')
	}
	if !words {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// writeHelp writes the help of a command and of all commands below it.
func writeHelp(w *bytes.Buffer, c *cobra.Command) {
	c.InitDefaultHelpFlag()
	for _, text := range []string{c.CommandPath(), c.Short, c.Long, c.UsageString()} {
		w.WriteString(text + "\n\n")
	}
	for _, sub := range c.Commands() {
		writeHelp(w, sub)
	}
}
