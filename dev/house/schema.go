package main

import (
	"regexp"
	"slices"
	"strings"
)

// Schema is what the migrations leave behind, and how they got there.
type Schema struct {
	Migrations int            `json:"migrations"`
	Tables     map[string]int `json:"columns_by_table"`
	Columns    int            `json:"columns"`
	Indexes    int            `json:"indexes"` // without those of keys
	Creates    int            `json:"create_statements"`
}

var (
	down        = regexp.MustCompile(`(?m)^-- \+goose Down`)
	comment     = regexp.MustCompile(`--[^\n]*`)
	createTable = regexp.MustCompile(`(?is)^\s*CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)\s*\((.*)`)
	dropTable   = regexp.MustCompile(`(?is)^\s*DROP TABLE (?:IF EXISTS )?([\w, ]+)`)
	alterTable  = regexp.MustCompile(`(?is)^\s*ALTER TABLE (?:IF EXISTS )?(?:ONLY )?(\w+)\s+(.*)`)
	renameTable = regexp.MustCompile(`(?is)^RENAME TO (\w+)`)
	addColumn   = regexp.MustCompile(`(?is)^ADD COLUMN\b`)
	dropColumn  = regexp.MustCompile(`(?is)^DROP COLUMN\b`)
	createIndex = regexp.MustCompile(`(?is)\bCREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?(\w+) ON (?:ONLY )?(\w+)`)
	dropIndex   = regexp.MustCompile(`(?is)^\s*DROP INDEX (?:IF EXISTS )?([\w, ]+)`)
	renameIndex = regexp.MustCompile(`(?is)^\s*ALTER INDEX (\w+) RENAME TO (\w+)`)
	constraint  = regexp.MustCompile(`(?is)^(PRIMARY KEY|UNIQUE|CHECK|FOREIGN KEY|CONSTRAINT|EXCLUDE|LIKE)\b`)
)

func withoutComments(sql string) string { return comment.ReplaceAllString(sql, "") }

// schema applies the Up parts of the migrations, in the order of their names.
func (t *tree) schema() Schema {
	var migrations []*file
	for _, f := range t.files {
		if f.syntax == nil && f.in("internal/postgres") && isMigration(f) {
			migrations = append(migrations, f)
		}
	}
	slices.SortFunc(migrations, func(a, b *file) int { return strings.Compare(a.path, b.path) })
	s := newSchema()
	for _, f := range migrations {
		s.migrate(strings.Join(f.lines, "\n"))
	}
	return s.result()
}

// state is the schema after some migrations.
type state struct {
	migrations, creates int
	columns             map[string]int    // by table
	indexes             map[string]string // table by index
}

func newSchema() *state { return &state{columns: map[string]int{}, indexes: map[string]string{}} }

func (s *state) result() Schema {
	out := Schema{Migrations: s.migrations, Tables: s.columns, Indexes: len(s.indexes), Creates: s.creates}
	for _, n := range s.columns {
		out.Columns += n
	}
	return out
}

func (s *state) migrate(text string) {
	s.migrations++
	if at := down.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	for _, statement := range split(withoutComments(text), ';') {
		s.apply(statement)
	}
}

func (s *state) apply(statement string) {
	if m := createTable.FindStringSubmatch(statement); m != nil {
		s.creates++
		s.columns[m[1]] = 0
		for _, entry := range split(untilClosed(m[2]), ',') {
			if !constraint.MatchString(strings.TrimSpace(entry)) {
				s.columns[m[1]]++
			}
		}
	}
	if m := createIndex.FindStringSubmatch(statement); m != nil {
		s.indexes[m[1]] = m[2]
	}
	if m := dropIndex.FindStringSubmatch(statement); m != nil {
		for name := range strings.SplitSeq(m[1], ",") {
			delete(s.indexes, strings.TrimSpace(name))
		}
	}
	if m := renameIndex.FindStringSubmatch(statement); m != nil {
		s.indexes[m[2]] = s.indexes[m[1]]
		delete(s.indexes, m[1])
	}
	if m := dropTable.FindStringSubmatch(statement); m != nil {
		for name := range strings.SplitSeq(m[1], ",") {
			s.drop(strings.TrimSpace(name))
		}
	}
	if m := alterTable.FindStringSubmatch(statement); m != nil {
		s.alter(m[1], m[2])
	}
}

func (s *state) drop(table string) {
	delete(s.columns, table)
	for index, of := range s.indexes {
		if of == table {
			delete(s.indexes, index)
		}
	}
}

func (s *state) alter(table, actions string) {
	if m := renameTable.FindStringSubmatch(strings.TrimSpace(actions)); m != nil {
		s.columns[m[1]] = s.columns[table]
		delete(s.columns, table)
		for index, of := range s.indexes {
			if of == table {
				s.indexes[index] = m[1]
			}
		}
		return
	}
	for _, action := range split(actions, ',') {
		action = strings.TrimSpace(action)
		if addColumn.MatchString(action) {
			s.columns[table]++
		}
		if dropColumn.MatchString(action) {
			s.columns[table]--
		}
	}
}

// untilClosed returns the text before the parenthesis that closes the one before the text.
func untilClosed(sql string) string {
	depth := 1
	for i, c := range sql {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return sql[:i]
		}
	}
	return sql
}

// split cuts SQL at a separator, but not inside parentheses, quotes or dollar quotes. Parts of blanks are left out.
func split(sql string, separator byte) []string {
	var out []string
	depth, start, quote := 0, 0, ""
	cut := func(end int) {
		if part := sql[start:end]; strings.TrimSpace(part) != "" {
			out = append(out, part)
		}
	}
	for i := 0; i < len(sql); i++ {
		switch c := sql[i]; {
		case quote != "":
			if strings.HasPrefix(sql[i:], quote) {
				i += len(quote) - 1
				quote = ""
			}
		case c == '\'' || c == '"':
			quote = string(c)
		case strings.HasPrefix(sql[i:], "$$"):
			quote = "$$"
			i++
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == separator && depth == 0:
			cut(i)
			start = i + 1
		}
	}
	cut(len(sql))
	return out
}
