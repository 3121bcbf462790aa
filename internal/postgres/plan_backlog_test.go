package postgres_test

import (
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// backlog is what planning a backlog took.
type backlog struct {
	transactions, runs, largest int
	longest                     time.Duration
	heap                        uint64 // bytes
}

// plan plans everything that is due, as a node does that owns all partitions.
func (b *bulk) planBacklog() (out backlog) {
	b.t.Helper()
	var memory runtime.MemStats
	for more := true; more; {
		more = false
		for first := 0; first < job.Partitions; first += 64 {
			begin := clock.Elapsed()
			planned, err := b.store.Plan(b.t.Context(), job.PlanParams{
				Partitions: allPartitions()[first : first+64], LookAhead: time.Minute, Cursors: 500,
			})
			require.NoError(b.t, err)
			require.Empty(b.t, planned.Broken)
			more = more || planned.More
			out.transactions++
			out.runs += len(planned.Runs)
			out.largest = max(out.largest, len(planned.Runs))
			out.longest = max(out.longest, clock.Elapsed()-begin)
		}
		runtime.ReadMemStats(&memory)
		out.heap = max(out.heap, memory.HeapInuse)
	}
	return out
}

// TestPlanBacklog plans what jobs of every minute with missed: all have missed in an hour without nodes: each occurrence
// of the catch-up window, paced, in transactions of bounded size. BELFRY_BACKLOG_JOBS=1000000 is the long form.
func TestPlanBacklog(t *testing.T) {
	jobs := fromEnv(t, "BELFRY_BACKLOG_JOBS", 2_000)
	b := setupBulk(t, nil)
	b.minutely(jobs)
	b.exec(`VACUUM ANALYZE job, cursor`)
	begin := clock.Elapsed()
	got := b.planBacklog()
	took := clock.Elapsed() - begin
	t.Logf(
		"jobs=%d runs=%d transactions=%d largest_transaction=%d longest_transaction=%s took=%s per_run=%.1fµs"+
			" heap=%dMB max_rss=%s",
		jobs, got.runs, got.transactions, got.largest, got.longest.Round(time.Millisecond), took.Round(time.Millisecond),
		float64(took.Microseconds())/float64(got.runs), got.heap>>20, maxRSS(t),
	)
	require.LessOrEqual(t, got.largest, job.PlanRuns)
	var stored, least, most, unpaced int
	row := b.pool.QueryRow(t.Context(), `
SELECT sum(n), min(n), max(n) FROM (SELECT count(*) AS n FROM run GROUP BY partition, job_id) r`)
	require.NoError(t, row.Scan(&stored, &least, &most))
	require.Equal(t, got.runs, stored)
	require.GreaterOrEqual(t, least, 30, "half an hour, each minute")
	require.LessOrEqual(t, most-least, int(took/time.Minute)+1, "but for those that came due meanwhile")
	row = b.pool.QueryRow(t.Context(), `
SELECT count(*) FROM (
    SELECT run_at - lag(run_at) OVER (PARTITION BY job_id ORDER BY due_at) AS pause FROM run
    WHERE partition < 4 AND origin = 3 /* missed */) r
WHERE pause < interval '1 s'`)
	require.NoError(t, row.Scan(&unpaced))
	require.Zero(t, unpaced, "caught-up runs of one job that start too soon after another")
}

// maxRSS returns the most memory that this process has had.
func maxRSS(t testing.TB) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	return string(regexp.MustCompile(`VmHWM:\s+(.*)`).FindSubmatch(status)[1])
}
