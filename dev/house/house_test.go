package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkout writes files to a directory of the test.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	return dir
}

func TestReport(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 71 {
		fmt.Fprintf(&long, "\tx(%d)\n\t// why\n", i)
	}
	repeated := strings.Repeat("\tuse(1)\n\tuse(2)\n\n\t// why\n\t{\n\t}\n", 4) // 8 count
	dir := checkout(t, map[string]string{
		"internal/postgres/store.go": "package postgres\n\ntype db struct{}\n\n" +
			"func (d *db) Ping() {}\nfunc (d *db) hidden() {}\n\ntype Store struct{ *db }\n\n" +
			"func (s *Store) Claim() string {\n\treturn `\nSELECT 1\nFROM run` + columns\n}\n\n" +
			"func (s Store) Insert() string { return `INSERT INTO run (a) SELECT 1` }\n\nconst columns = `x`\n",
		"internal/postgres/query/end.sql":        "-- INSERT INTO run in a comment\nINSERT INTO run_history SELECT 1;\n",
		"internal/postgres/migration/0001_a.sql": "CREATE TABLE a (x int);\nINSERT INTO run VALUES (1);\n",
		"internal/engine/engine.go": "package engine\n\nfunc run() {\n\tgo work()\n\tg.Go(func() { sweep() })\n" +
			"\t_ = []loop.Loop{{Name: \"plan\"}, loop.Loop{Name: prefix + \"claim\"}}\n" +
			"\t_ = append(loop.Group{{Name: \"sweep\"}}, loop.Loop{})\n}\n",
		"internal/job/a.go":    "package job\n\nfunc a() {\n" + repeated + "\tonly()\n}\n",
		"internal/job/b.go":    "package job\n\nfunc b() {\n" + repeated + "}\n",
		"internal/job/long.go": "package job\n\nfunc long() {\n" + long.String() + "}\n",
		"internal/job/wide_test.go": "package job\n\n//" + strings.Repeat("x", 130) +
			"\n//" + strings.Repeat("x", 140) + "\n",
		"sdk/go/client.gen.go":        "package sdk\n\nvar x = \"" + strings.Repeat("x", 200) + "\"\n",
		"web/node_modules/broken.go":  "not Go",
		"internal/pgtest/database.go": "package pgtest\n\nfunc start() { go wait() }\n",
		"docs/guide/a.md": "[right](../architecture.md#x) [wrong](b.md) [far](https://example.com/c.md)\n" +
			"`internal/job/a.go` `internal/job` `internal/job/gone.go` `internal/…/x.go`\n",
		"docs/architecture.md": "# A\n\n## Packages over 3,000 lines\n\n- `internal/job`: words.\n\n" +
			"## B\n\n`internal/pgtest`\n",
	})
	r, err := inspect(dir)
	require.NoError(t, err)

	require.Equal(t, []Store{{"postgres.Store", 3}}, r.Stores, "with the method that it embeds")
	require.Len(t, r.Long, 1)
	require.Equal(t, 71, r.Long[0].Lines, "comments do not count")
	require.Equal(t, map[string]Wide{
		"code":  {},
		"tests": {Over120: 2, Over140: 1, Where: []Sized{{"internal/job/wide_test.go", 1}}},
	}, r.Width)
	require.Equal(t, SQL{FileLines: 2, Migration: 2, GoLines: 3, Pieces: 2, Concatenated: 1}, r.SQL)
	require.Equal(t, []Insert{
		{"run", "internal/postgres/store.go", 1}, {"run_history", "internal/postgres/query/end.sql", 1},
	}, r.Inserts)
	require.Equal(t, []Background{{
		Package: "internal/engine", Starts: []string{"engine.go:4 work", "engine.go:5 sweep"},
		Loops: []string{"plan", `prefix + "claim"`, "sweep", "(no name)"},
	}}, r.Background)
	require.Equal(t, []Copy{{8, "internal/job/a.go:4", "internal/job/b.go:4", "use(1)"}}, r.Copies)
	require.Equal(t, []string{"docs/guide/a.md:1 b.md", "docs/guide/a.md:2 internal/job/gone.go"}, r.Broken)
	require.Equal(t, []string{
		"1 functions have more than 70 lines, goal 0", "tests: 1 lines are wider than 140 columns, goal 0",
		"2 paths and links in documents lead nowhere, goal 0",
	}, r.Missed)
	for _, p := range r.Packages {
		require.Equal(t, p.Path == "internal/job", p.Allowed, p.Path)
	}

	var out bytes.Buffer
	require.NoError(t, write(&out, r, false))
	require.Contains(t, out.String(), "missed: 1 functions")
	out.Reset()
	require.NoError(t, write(&out, r, true))
	require.Contains(t, out.String(), `"missed_goals"`)
}

func TestSchema(t *testing.T) {
	t.Parallel()
	s := newSchema()
	s.migrate(`-- +goose Up
CREATE TABLE a (x int CHECK (x IN (1, 2)), y text DEFAULT 'a, b', -- one, two
    PRIMARY KEY (x, y)) WITH (fillfactor = 70, autovacuum_enabled = false);
CREATE UNLOGGED TABLE b (x int);
CREATE TABLE c (x int);
CREATE INDEX a_y ON a (y);
CREATE UNIQUE INDEX c_x ON c (x);
CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'CREATE TABLE d (x int)'; END $$;
-- +goose Down
DROP TABLE a, b, c;`)
	s.migrate(`ALTER TABLE a ADD COLUMN z numeric(1, 2), ADD COLUMN w int, DROP COLUMN y;
ALTER TABLE b RENAME TO e;
ALTER INDEX a_y RENAME TO a_z;
DROP TABLE c;`)
	require.Equal(t, Schema{
		Migrations: 2, Tables: map[string]int{"a": 3, "e": 1}, Columns: 4, Indexes: 1, Creates: 3,
	}, s.result())
}

func TestColumns(t *testing.T) {
	t.Parallel()
	require.Equal(t, 9, columns("\t\tä"))
}
