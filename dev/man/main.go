// Command man writes the manual pages and shell completions of belfry into a directory: man1/*.1,
// bash-completion/belfry, zsh/_belfry and fish/belfry.fish. Packages and archives contain them.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/belfry-dev/belfry/internal/cli"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: man VERSION DIRECTORY")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: the date of the pages, in seconds since 1970: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	root, dir := cli.New(os.Args[1]), os.Args[2]
	root.DisableAutoGenTag = true
	root.InitDefaultCompletionCmd()
	pages := filepath.Join(dir, "man1")
	for _, d := range []string{"man1", "bash-completion", "zsh", "fish"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	header := &doc.GenManHeader{Section: "1", Source: "Belfry " + os.Args[1], Manual: "Belfry", Date: &date}
	if err := doc.GenManTree(root, header, pages); err != nil {
		return err
	}
	return completions(root, dir)
}

func completions(root *cobra.Command, dir string) error {
	if err := root.GenBashCompletionFileV2(filepath.Join(dir, "bash-completion", "belfry"), true); err != nil {
		return err
	}
	if err := root.GenZshCompletionFile(filepath.Join(dir, "zsh", "_belfry")); err != nil {
		return err
	}
	return root.GenFishCompletionFile(filepath.Join(dir, "fish", "belfry.fish"), true)
}
