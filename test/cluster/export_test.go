package cluster_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// TestMeasureExport compares the lateness of runs while `belfry archive run` exports a day of ROWS runs with their
// lateness alone, in turns of the same length.
func TestMeasureExport(t *testing.T) {
	rows := number("ROWS", 0)
	if rows == 0 {
		t.Skip("set ROWS: make measure-export")
	}
	rounds := number("ROUNDS", 3)
	c := newCluster(t, setup{nodes: 1, slow: immediately})
	c.create(number("JOBS", 200), time.Duration(rounds)*10*time.Minute, spread)
	wait, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, until(wait, func() bool { return len(c.sink.all()) > 5*len(c.jobs) }), "warm")
	archive := "file://" + t.TempDir()
	var late [2]figures
	for i := range rounds {
		c.fillDay(i+2, rows)
		began, start := c.now(), clock.Elapsed()
		cmd := exec.CommandContext(t.Context(), binary, "archive", "run", "--database-url", c.url, "--archive-url", archive)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, strings.ToLower(string(out)), "archived")
		took := clock.Elapsed() - start
		late[1] = append(late[1], c.latenessSince(began)...)
		began = c.now()
		<-time.After(took)
		late[0] = append(late[0], c.latenessSince(began)...)
		t.Logf("round %d: exported %d rows in %s: %.0f rows/s", i+1, rows, took.Round(time.Millisecond),
			float64(rows)/took.Seconds())
	}
	for with, name := range []string{"alone", "during the export"} {
		t.Logf("%-17s %6d runs, lateness p50 %s p99 %s", name, len(late[with]),
			late[with].percentile(50).Round(100*time.Microsecond), late[with].percentile(99).Round(100*time.Microsecond))
	}
	t.Logf("ratio of lateness p99 %.2f", late[1].percentile(99).Seconds()/late[0].percentile(99).Seconds())
}

// fillDay writes a day of history with runs of the cluster's jobs. The jobs are younger, so the audit has nothing to
// compare them with.
func (c *cluster) fillDay(daysAgo, rows int) {
	c.t.Helper()
	day := c.now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -daysAgo)
	for _, parent := range []string{"run_history", "run_output"} {
		_, err := c.pool.Exec(c.t.Context(), fmt.Sprintf(
			`CREATE TABLE IF NOT EXISTS %[1]s_%[2]s PARTITION OF %[1]s FOR VALUES FROM ('%[3]s') TO ('%[4]s')`, parent,
			day.Format("20060102"), day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)))
		require.NoError(c.t, err)
	}
	for from := 0; from < rows; from += 1_000_000 { // each within the limit of time for a statement
		_, err := c.pool.Exec(c.t.Context(), `INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at,
			    ended_at, started_at, ended, attempt, origin, status, queue_id)
			SELECT j.partition, 0, 1, j.id, at, at, at + interval '20 ms', at + interval '5 ms', 1, 1, 0, 200, j.queue_id
			FROM generate_series($2::int, $3::int) AS g (n)
			CROSS JOIN LATERAL (SELECT $1::timestamptz + g.n * interval '86000 s' / $4 AS at) a
			JOIN (SELECT row_number() OVER () - 1 AS i, count(*) OVER () AS jobs, * FROM job) j ON j.i = g.n % j.jobs`,
			day, from, min(from+1_000_000, rows)-1, rows)
		require.NoError(c.t, err)
	}
}
