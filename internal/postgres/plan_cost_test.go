package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// TestPlanCost measures what planning a run costs: with schedules that many jobs share, and in the worst case, where
// each job has its own. BELFRY_PLAN_JOBS=1000000 is the long form.
func TestPlanCost(t *testing.T) {
	many := fromEnv(t, "BELFRY_PLAN_JOBS", 5_000)
	for _, c := range []struct {
		name  string
		jobs  int
		make  func(*bulk, int)
		ahead time.Duration // in which each of them is due
	}{
		{"60 schedules", min(many, 10_000), (*bulk).shared, 3 * time.Hour},
		{"60 schedules", many, (*bulk).shared, 3 * time.Hour},
		{"a schedule each", many, (*bulk).lonely, 32 * 24 * time.Hour},
	} {
		b := setupBulk(t, nil)
		c.make(b, c.jobs)
		b.exec(`VACUUM ANALYZE job, cursor`)
		runs, cursors, transactions := 0, 0, 0
		begin := clock.Elapsed()
		for first := 0; first < job.Partitions; first += 64 {
			for more := true; more; transactions++ {
				planned, err := b.store.Plan(
					t.Context(),
					job.PlanParams{Partitions: allPartitions()[first : first+64], LookAhead: c.ahead, Cursors: 500},
				)
				require.NoError(t, err)
				require.Empty(t, planned.Broken)
				runs, cursors, more = runs+len(planned.Runs), cursors+planned.Cursors, planned.More
			}
		}
		took := clock.Elapsed() - begin
		t.Logf(
			"%9d jobs, %-15s: %5.1f µs per run; %d runs, %d cursors, %d transactions, %s", c.jobs, c.name,
			float64(took.Microseconds())/float64(runs), runs, cursors, transactions, took.Round(time.Millisecond),
		)
		var planned int
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(DISTINCT job_id) FROM run`).Scan(&planned))
		require.Equal(t, c.jobs, planned, "each job is planned")
	}
}
