package postgres

import (
	"embed"
	"strings"
)

// The statements of the path, one file each: plan, claim, admit, start, complete,
// retry, rescue, sweep, pull, and the permits they share. Each file says what its
// parameters are, and psql can PREPARE it as it is.
//
//go:embed query/*.sql
var queries embed.FS

// statement returns the text of query/NAME.sql without the comment that it begins
// with: in pg_stat_activity the statement itself should come first.
func statement(name string) string {
	file, err := queries.ReadFile("query/" + name + ".sql")
	if err != nil {
		panic(err) //nolint:forbidigo // a file that is missing from the binary is a programming error
	}
	text := string(file)
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(text)
}
