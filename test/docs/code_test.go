package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// inTransaction is the error for CREATE DATABASE in a transaction: PostgreSQL has accepted the statement by then.
const inTransaction = "25001"

var belfryRole = regexp.MustCompile(`\bbelfry_(\w+)`)

// checkSQL executes each statement of a block on the real schema, and rolls it back. Statements with parameters are
// prepared only. With fails=CODE the last statement must fail with this SQLSTATE, with returns=VALUE it must return this
// value. setup is what blocks before it on the page have set up. Roles belong to the whole server, so they get other
// names.
func (c *cluster) checkSQL(t *testing.T, b block, setup string) error {
	t.Helper()
	text := setup + b.text
	if strings.Contains(text, "ROLE") {
		text = belfryRole.ReplaceAllString(text, "docs_${1}_"+fmt.Sprint(c.spaces.Add(1)))
		if !strings.Contains(text, "CREATE ROLE") {
			text = "CREATE ROLE " + regexp.MustCompile(`docs_\w+`).FindString(text) + ";\n" + text
		}
	}
	tx, err := c.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	var returned string
	for _, statement := range statements(text) {
		if strings.Contains(statement, "$1") {
			_, err = tx.Prepare(t.Context(), "", statement)
		} else {
			returned, err = firstValue(t, tx, statement)
		}
		if err != nil {
			break
		}
	}
	problem, _ := errors.AsType[*pgconn.PgError](err)
	switch want := b.option("fails"); {
	case want != "" && (problem == nil || problem.Code != want):
		return fmt.Errorf("%s: should fail with SQLSTATE %s, got: %w", b, want, err)
	case err == nil && b.option("returns") != "" && b.option("returns") != returned:
		return fmt.Errorf("%s: should return %s, and returns %s", b, b.option("returns"), returned)
	case want != "" || err == nil || problem != nil && problem.Code == inTransaction:
		return nil
	}
	return fmt.Errorf("%s: %w", b, err)
}

// firstValue executes a statement and returns the first value that it returns, as text.
func firstValue(t *testing.T, tx pgx.Tx, statement string) (value string, err error) {
	t.Helper()
	rows, err := tx.Query(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() && value == "" {
		if raw := rows.RawValues(); len(raw) > 0 {
			value = string(raw[0])
		}
	}
	rows.Close()
	return value, rows.Err()
}

// statements splits a script at the semicolons that end lines; comments are removed.
func statements(text string) (out []string) {
	text = regexp.MustCompile(`(?m)\s*--.*$`).ReplaceAllString(text, "")
	for _, s := range regexp.MustCompile(`;\s*(\n|$)`).Split(text, -1) {
		if strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return out
}

// imports are the packages that a Go block may use without importing them.
var imports = map[string]string{
	"belfry": "github.com/belfry-dev/belfry/sdk/go", "worker": "github.com/belfry-dev/belfry/sdk/go/worker",
	"workertest": "github.com/belfry-dev/belfry/sdk/go/workertest", "effects": "github.com/belfry-dev/belfry/sdk/go/effects",
	"webhook": "github.com/belfry-dev/belfry/sdk/go/webhook",
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "log": "log", "os": "os",
	"slog": "log/slog", "sql": "database/sql", "time": "time",
}

// goFile makes a block a file: a whole program stays as it is, statements become the body of a function. Names in the
// info string after "given" are its parameters: given=tx:*sql.Tx.
func goFile(b block) string {
	if strings.Contains(b.text, "package ") {
		return b.text
	}
	parameters := []string{"ctx context.Context"}
	for _, word := range b.info {
		if given, ok := strings.CutPrefix(word, "given="); ok {
			parameters = append(parameters, strings.Replace(given, ":", " ", 1))
		}
	}
	result, end := "error", "return nil"
	if regexp.MustCompile(`(?m)^\s*return$`).MatchString(b.text) {
		result, end = "", ""
	}
	body := fmt.Sprintf("func _(%s) %s {\n_ = ctx\n{\n//line block:1\n%s\n}\n%s\n}\n", strings.Join(parameters, ", "), result, b.text, end)
	var out strings.Builder
	out.WriteString("package main\n")
	for name, path := range imports {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(body) {
			fmt.Fprintf(&out, "import %s %q\n", name, path)
		}
	}
	return out.String() + body + "\nfunc main() {}\n"
}

// checkGoBlocks compiles all Go blocks in one call, in the module of the SDK. Variables that a block does not use
// are allowed.
func checkGoBlocks(t *testing.T, all []block) error {
	t.Helper()
	module, err := filepath.Abs(filepath.Join(root, "sdk/go"))
	require.NoError(t, err)
	dir, overlay := t.TempDir(), map[string]string{}
	packages := []string{"build", "-o", os.DevNull, "-gcflags=-e", "-overlay", filepath.Join(dir, "overlay.json")}
	for i, b := range all {
		file, name := filepath.Join(dir, fmt.Sprintf("%d.go", i)), fmt.Sprintf("docs_block_%d", i)
		require.NoError(t, os.WriteFile(file, []byte(goFile(b)), 0o600))
		overlay[filepath.Join(module, name, "main.go")] = file
		packages = append(packages, "./"+name)
	}
	data, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o600))
	command := exec.CommandContext(t.Context(), "go", packages...)
	command.Dir = module
	command.Env = append(os.Environ(), "GOWORK=off")
	output, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	var problems []string
	for line := range strings.Lines(string(output)) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "declared and not used") {
			problems = append(problems, line)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("go: %v\n%s", all, output)
}
