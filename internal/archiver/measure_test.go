package archiver_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/clock"
)

// TestManyRows measures the export of ROWS rows.
func TestManyRows(t *testing.T) {
	t.Parallel()
	rows, _ := strconv.Atoi(os.Getenv("ROWS"))
	if rows == 0 {
		t.Skip("set ROWS: make measure-archive")
	}
	b := setup(t)
	b.fill(rows)
	a, _ := b.node()
	began := clock.Elapsed()
	at := began
	last := ""
	a.Step = func(name string) error {
		now := clock.Elapsed()
		t.Logf("%8s until %s (after %s)", (now - at).Round(time.Millisecond), name, last)
		at, last = now, name
		return nil
	}
	_, err := a.Once(t.Context())
	require.NoError(t, err)
	took := clock.Elapsed() - began
	m := b.manifest()
	var bytes int64
	for i := range m.Files {
		bytes += m.Files[i].Bytes
	}
	n := m.Sum(archive.Runs).Rows
	require.EqualValues(t, rows, n)
	t.Logf("%d rows in %s: %.0f rows/s, %d files, %.1f bytes/row", n, took.Round(time.Millisecond),
		float64(n)/took.Seconds(), len(m.Files), float64(bytes)/float64(n))
	b.compareWithDuckDB()
	b.require()
	require.Contains(t, append(b.drop(), b.drop()...), "run_history_20200229")
}

// duckSums has DuckDB count the rows of each day and namespace, and hash their keys.
const duckSums = `
import duckdb, json, sys
duckdb.sql("SET memory_limit = '2GB'; SET enable_progress_bar = false")
print(json.dumps(duckdb.sql(f"""
    SELECT day::text, namespace::text, count(*)::text, sum(('0x' || left(md5(concat_ws('|',
        job_id, epoch_us(due_at), seq, epoch_us(ended_at))), 15))::BIGINT)::text
    FROM read_parquet('{sys.argv[1]}/v1/runs/*/*/*.parquet', hive_partitioning = true)
    GROUP BY ALL ORDER BY ALL""").fetchall()))
`

// compareWithDuckDB compares what DuckDB finds in the archive with what PostgreSQL finds in the table.
func (b *bundle) compareWithDuckDB() {
	b.t.Helper()
	python := os.Getenv("BELFRY_TEST_DUCKDB")
	require.NotEmpty(b.t, python, "make measure-archive sets it")
	out, err := exec.CommandContext(b.t.Context(), python, "-c", duckSums, b.directory).Output()
	require.NoError(b.t, err)
	var got [][4]string
	require.NoError(b.t, json.Unmarshal(out, &got))
	rows, err := b.pool.Query(b.t.Context(), `
		SELECT '2020-02-29', q.namespace_id::text, count(*)::text, sum(('x' || left(md5(concat_ws('|', h.job_id,
		    (extract(epoch FROM h.due_at) * 1000000)::bigint, h.seq, (extract(epoch FROM h.ended_at) * 1000000)::bigint)),
		    15))::bit(60)::bigint)::text
		FROM run_history_20200229 h JOIN queue q ON q.id = h.queue_id GROUP BY 2 ORDER BY 2`)
	require.NoError(b.t, err)
	want, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v [4]string, err error) {
		return v, row.Scan(&v[0], &v[1], &v[2], &v[3])
	})
	require.NoError(b.t, err)
	require.Equal(b.t, want, got)
	b.t.Logf("DuckDB and PostgreSQL agree: %v", got)
}
