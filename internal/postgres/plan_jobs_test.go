package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestPlanReadsTheJobsOfItsCursors: to plan a job, the jobs of other schedules in the same partition are not read,
// however many there are and whatever the statistics say.
func TestPlanReadsTheJobsOfItsCursors(t *testing.T) {
	t.Parallel()
	var r recording
	b := setupBulk(t, &r)
	o := job.BulkParams{Namespace: uuid.MustParse(strings.Trim(bulkNamespace, "'")), Actor: "test"}
	for i := range 100 {
		o.Jobs = append(o.Jobs, job.NewJob{Definition: job.Definition{
			Name: fmt.Sprintf("every-%d", i), Schedule: schedule.Spec{Every: "1s"}, Target: job.Target{Kind: "noop"},
		}})
	}
	_, err := b.store.CreateJobs(t.Context(), o)
	require.NoError(t, err)
	for range 10 {
		b.oneOffs(1000)
		b.exec(`UPDATE job SET name = gen_random_uuid()::text WHERE name LIKE 'one-off-%'`)
	}
	sent := r.during(func() {
		planned, err := b.store.Plan(t.Context(), job.PlanParams{
			Partitions: allPartitions()[:64], LookAhead: time.Second, Cursors: 500,
		})
		require.NoError(t, err)
		require.NotEmpty(t, planned.Runs)
	})
	sent = slices.DeleteFunc(sent, func(s statement) bool { return !strings.Contains(s.sql, "INSERT INTO run") })
	require.NotEmpty(t, sent)
	check := func(state string) {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			require.NotContains(t, b.explain(sent, mode), "job by partition id", "%s, %s", state, mode)
		}
	}
	check("never analysed")
	b.exec(`ANALYZE job`)
	check("analysed")
	b.exec(`UPDATE job SET state = 3 WHERE name NOT LIKE 'every-%'`)
	check("finished")
	b.exec(`ANALYZE job`)
	check("analysed when most are finished")
}
