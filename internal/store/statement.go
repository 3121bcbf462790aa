package store

import (
	"embed"
	"path"
	"strings"
)

// Statements returns what reads the text of NAME.sql in a folder of files, without the comment that it begins with: in
// pg_stat_activity the statement itself should come first.
func Statements(files embed.FS, folder string) func(name string) string {
	return func(name string) string {
		file, err := files.ReadFile(path.Join(folder, name+".sql"))
		if err != nil {
			panic(err) //nolint:forbidigo // a file that is missing from the binary is a programming error
		}
		text := string(file)
		for strings.HasPrefix(text, "--") {
			_, text, _ = strings.Cut(text, "\n")
		}
		return strings.TrimSpace(text)
	}
}
