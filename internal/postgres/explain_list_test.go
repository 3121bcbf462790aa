package postgres_test

import (
	"slices"
	"strings"
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
	sent := r.during(func() {
		page, err := b.store.ListJobs(
			t.Context(),
			job.ListParams{Namespace: namespace, Due: &job.DueRange{Before: b.now().Add(48 * time.Hour)}, Limit: 100},
		)
		require.NoError(t, err)
		require.Len(t, page.Jobs, 100)
	})
	begin := slices.IndexFunc(sent, func(s statement) bool { return strings.Contains(s.sql, "FROM cursor c\n") })
	require.Positive(t, begin)
	for _, statistics := range []string{"never analysed", "analysed"} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			ways := b.explain(sent[begin-1:begin+2], mode)
			for i := range ways { // PostgreSQL 18 skips over due_at
				ways[i] = strings.Replace(
					ways[i], "run by partition job_id seq", "run by partition job_id due_at seq", 1,
				)
			}
			require.Equal(t, []string{
				"cursor by namespace_id plan_at", "cursor by partition id", "job by namespace_id plan_from",
				"job by partition cursor_id id", "queue", "run by partition job_id due_at seq",
			}, ways, "%s, %s", statistics, mode)
		}
		b.exec(`ANALYZE job, cursor`)
	}
	b.exec(`UPDATE job SET plan_from = now() - interval '1 day'`)
	starts := slices.IndexFunc(sent, func(s statement) bool { return strings.Contains(s.sql, "j.plan_from > now()") })
	require.Less(t, b.blocks(sent[begin-1], sent[starts]), 100, "jobs that have started are not read")
}
