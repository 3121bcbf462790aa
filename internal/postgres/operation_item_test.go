package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestOperationsOnJobsWalkIndexes: an item costs a fixed number of lookups, whatever the statistics say.
func TestOperationsOnJobsWalkIndexes(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.exec(`ALTER TABLE job SET (autovacuum_enabled = false)`)
	b.shared(5_000)
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (1, $1, 'default')`, bulkNamespaceID)
	for _, statistics := range []string{"never analysed", "analysed"} {
		for _, kind := range []job.OperationKind{job.PauseJobs, job.TriggerJobs} {
			sent := r.during(func() {
				o, err := b.store.BeginOperation(t.Context(), job.OperationParams{
					Namespace: bulkNamespaceID, Kind: kind, Set: job.OperationSet{Jobs: &job.Filter{Queue: "default"}},
					Rate: 3, Actor: "ann",
				})
				require.NoError(t, err)
				require.True(t, o.Count == 5_000 || o.More, "%d jobs", o.Count) // a slow count ends early and says so
				worked, err := b.store.WorkOperation(t.Context())
				require.NoError(t, err)
				require.True(t, worked)
				require.NoError(t, b.store.AbortOperation(t.Context(), bulkNamespaceID, o.ID, "ann"))
				_, err = b.store.OperationItems(t.Context(), bulkNamespaceID, o.ID, 0, 10)
				require.NoError(t, err)
			})
			ways := b.explain(sent, "force_custom_plan")
			for _, table := range []string{"job", "cursor", "run", "operation", "operation_item", "audit_log"} {
				require.NotContains(t, ways, table, "%s, %s", kind, statistics)
			}
		}
		b.exec(`ANALYZE job, cursor, operation`)
	}
}
