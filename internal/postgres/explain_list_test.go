package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestListsByDueTimeWalkTheirIndexes, whatever the statistics say, under row-level security and without sorting.
func TestListsByDueTimeWalkTheirIndexes(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.exec(`ALTER TABLE job SET (autovacuum_enabled = false)`)
	b.exec(`ALTER TABLE cursor SET (autovacuum_enabled = false)`)
	b.shared(10_000)
	var namespace uuid.UUID
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT namespace_id FROM job LIMIT 1`).Scan(&namespace))
	b.exec(
		`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (1, $1, 'default')
			ON CONFLICT DO NOTHING`,
		namespace,
	)
	before := b.now().Add(48 * time.Hour)
	sent := r.during(func() {
		page, err := b.store.ListJobs(
			t.Context(),
			job.ListParams{Namespace: namespace, Due: &job.DueRange{Before: before}, Limit: 100},
		)
		require.NoError(t, err)
		require.Len(t, page.Jobs, 100)
	})
	require.LessOrEqual(t, r.trips, 2)
	for _, statistics := range []string{"never analysed", "analysed"} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			require.Equal(t, []string{
				"cursor by namespace_id plan_at", "cursor by partition id", "job by namespace_id plan_from",
				"job by partition cursor_id id",
			}, b.explain(sent[:2], mode), "%s, %s", statistics, mode)
		}
		b.exec(`ANALYZE job, cursor`)
	}
	require.Less(t, b.blocks(sent[0], sent[1]), 1_000, "a page reads what it shows")
}
