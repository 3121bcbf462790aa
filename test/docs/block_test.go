package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// block is a fenced code block.
type block struct {
	file string
	line int      // of its first line of text
	lang string   // the first word after the fence
	info []string // the other words
	text string
}

func (b block) String() string { return fmt.Sprintf("%s:%d (%s)", b.file, b.line, b.lang) }

// option returns the value of name=value in the info string.
func (b block) option(name string) string {
	for _, word := range b.info {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}

// blocks returns the fenced blocks of a page. A fence may be indented; its indentation is removed from the text.
func blocks(file, page string) (out []block, err error) {
	var open *block
	indent, lines := "", []string(nil)
	for i, line := range strings.Split(page, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		info, fence := strings.CutPrefix(trimmed, "```")
		switch {
		case fence && open == nil:
			words := strings.Fields(info)
			if len(words) == 0 {
				return nil, fmt.Errorf("%s:%d: the block has no language; use text for what is not code", file, i+1)
			}
			open = &block{file: file, line: i + 2, lang: words[0], info: words[1:]}
			indent, lines = line[:len(line)-len(trimmed)], nil
		case fence && strings.TrimSpace(info) == "":
			open.text = strings.Join(lines, "\n") + "\n"
			out, open = append(out, *open), nil
		case fence:
			return nil, fmt.Errorf("%s:%d: a block begins inside the block of line %d", file, i+1, open.line-1)
		case open != nil:
			lines = append(lines, strings.TrimPrefix(line, indent))
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: the block does not end", file, open.line-1)
	}
	return out, nil
}

// pages returns all pages of the documentation, by their paths from the root of the repository.
func pages(t *testing.T) (out []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "sdk/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, f := range files {
			name, err := filepath.Rel(root, f)
			require.NoError(t, err)
			out = append(out, name)
		}
	}
	require.Greater(t, len(out), 30)
	return out
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	got, err := blocks("x.md", "a\n```sh\nls\n```\n- b\n  ```sql fails=42601\n  SELECT\n    1\n  ```\n")
	require.NoError(t, err)
	require.Equal(t, []block{
		{"x.md", 3, "sh", []string{}, "ls\n"},
		{"x.md", 7, "sql", []string{"fails=42601"}, "SELECT\n  1\n"},
	}, got)
	require.Equal(t, "42601", got[1].option("fails"))
	for page, want := range map[string]string{
		"```\nx\n```\n":         "x.md:1: the block has no language",
		"```sh\nx\n":            "x.md:1: the block does not end",
		"```sh\n```json\n```\n": "x.md:2: a block begins inside the block of line 1",
	} {
		_, err := blocks("x.md", page)
		require.ErrorContains(t, err, want)
	}
}
