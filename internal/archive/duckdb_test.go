package archive_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
)

// sums are the statements of the guide: another engine counts the rows of each day and namespace, and hashes their keys.
const sums = `
import duckdb, json, sys
root = sys.argv[1]
runs = duckdb.sql(f"""
    SELECT 'runs', day::text, namespace::text, count(*), sum(('0x' || left(md5(concat_ws('|',
        job_id, epoch_us(due_at), seq, epoch_us(ended_at))), 15))::BIGINT)::text
    FROM read_parquet('{root}/v1/runs/*/*/*.parquet', hive_partitioning = true) GROUP BY ALL ORDER BY ALL""").fetchall()
skips = duckdb.sql(f"""
    SELECT 'skips', day::text, namespace::text, count(*), sum(('0x' || left(md5(concat_ws('|',
        "partition", cursor_id, epoch_us(from_due), reason)), 15))::BIGINT)::text
    FROM read_parquet('{root}/v1/skips/*/*/*.parquet', hive_partitioning = true) GROUP BY ALL ORDER BY ALL""").fetchall()
texts = duckdb.sql(f"""
    SELECT message, attempts[1].outcome, started_at IS NULL, epoch_us(attempts[1].started_at)
    FROM read_parquet('{root}/v1/runs/*/*/*.parquet') WHERE len(attempts) > 0""").fetchall()
print(json.dumps([runs + skips, texts]))
`

// TestDuckDBReadsTheArchive: an engine that shares no code with Belfry finds the same rows.
func TestDuckDBReadsTheArchive(t *testing.T) {
	t.Parallel()
	python := os.Getenv("BELFRY_TEST_DUCKDB")
	if python == "" {
		t.Skip("needs a Python with duckdb: make test-archive")
	}
	s := newShelf(t)
	var want [][]any
	add := func(p archive.Place, parts ...[]archive.Run) {
		m, err := s.Manifest(t.Context(), s.day(p, parts...))
		require.NoError(t, err)
		for _, total := range m.Totals {
			want = append(want, []any{
				string(total.Kind), p.Day.String(), total.Namespace.String(), float64(total.Sum.Rows), total.Sum.Keys.String(),
			})
		}
	}
	started := int64(-1)
	odd := archive.Run{
		Job: id(200), DueAt: -1, EndedAt: 1, Message: "é|\x00",
		Attempts: []archive.Attempt{{Outcome: "lost", StartedAt: &started}},
	}
	add(place, manyRuns(1, 3, 1000), append(manyRuns(4, 9, 1000), odd))
	next := archive.DayOf(place.Day.Start().AddDate(0, 0, 1))
	add(archive.Place{Day: next, Generation: 1, Namespace: id(9)}, manyRuns(7, 7, 10))

	out, err := exec.CommandContext(t.Context(), python, "-c", sums, s.dir).Output()
	require.NoError(t, err)
	var got [][][]any
	require.NoError(t, json.Unmarshal(out, &got))
	require.ElementsMatch(t, want, got[0])
	require.Equal(t, [][]any{{"é|\x00", "lost", true, float64(-1)}}, got[1])
}

// runGuide runs the statements of the guide in the directory of an archive.
const runGuide = `
import duckdb, json, os, sys
os.chdir(sys.argv[1])
for statement in sys.stdin.read().split(';')[:-1]:
    result = duckdb.sql(statement)
print(json.dumps(result.fetchall()))
`

// TestTheQueryOfTheGuide counts each run of a day once, also while the day is exported again: the files of both
// generations are there then.
func TestTheQueryOfTheGuide(t *testing.T) {
	t.Parallel()
	python := os.Getenv("BELFRY_TEST_DUCKDB")
	if python == "" {
		t.Skip("needs a Python with duckdb: make test-archive")
	}
	guide, err := os.ReadFile("../../docs/guide/archive.md")
	require.NoError(t, err)
	_, query, _ := strings.Cut(string(guide), "```duckdb\n")
	query, _, found := strings.Cut(query, "```")
	require.True(t, found)
	day, err := archive.ParseDay("2026-03-01")
	require.NoError(t, err)
	s := newShelf(t)
	s.day(archive.Place{Day: day, Generation: 1, Namespace: id(9)}, manyRuns(1, 3, 10))
	s.day(archive.Place{Day: day, Generation: 2, Namespace: id(9)}, manyRuns(1, 3, 10), manyRuns(4, 4, 1))
	runs := func(query string) (n int) {
		command := exec.CommandContext(t.Context(), python, "-c", runGuide, s.dir)
		command.Stdin = strings.NewReader(query)
		out, err := command.Output()
		require.NoError(t, err)
		var rows [][]any
		require.NoError(t, json.Unmarshal(out, &rows))
		for _, r := range rows {
			n += int(r[1].(float64))
		}
		return n
	}
	require.Equal(t, 31, runs(query))
	require.Equal(t, 61, runs("SELECT 1, count(*) FROM read_parquet('v1/runs/*/*/*.parquet');"), "as it was")
}
