package postgres_test

import (
	"testing"
	"time"

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

// TestOldOperationsAreDropped: operations that ended before the retention go, with their items and versions.
func TestOldOperationsAreDropped(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	b.exec(`
WITH o AS (
    INSERT INTO operation (id, namespace_id, kind, filter, failed_until, rate, state, count, actor, created_at, ended_at, next_at)
    SELECT gen_random_uuid(), $1, 'relabel', '{}', now(), 1, CASE WHEN hours < 0 THEN 'running' ELSE 'finished' END, 30,
           'ann', now() - interval '90 days', CASE WHEN hours >= 0 THEN now() - hours * interval '1 hour' END, now()
    FROM unnest('{-1, 0, 23, 25, 26, 99}'::integer[]) hours
    RETURNING id
), v AS (INSERT INTO operation_version SELECT id, gen_random_uuid(), 2, $1 FROM o, generate_series(1, 30))
INSERT INTO operation_item SELECT id, n, $1, now(), 'job_x', 'x', 'deleted' FROM o, generate_series(1, 20) n`, bulkNamespaceID)
	drop := func() int {
		n, err := b.store.DropOperations(t.Context(), 24*time.Hour, 40)
		require.NoError(t, err)
		return n
	}
	rows := func() [3]int64 {
		return [3]int64{
			b.number(`SELECT count(*) FROM operation`), b.number(`SELECT count(*) FROM operation_version`),
			b.number(`SELECT count(*) FROM operation_item`),
		}
	}
	b.exec(`UPDATE operation SET kind = 'undo' WHERE state = 'running'`)
	require.Zero(t, drop(), "an undo may need the versions")
	b.exec(`UPDATE operation SET kind = 'relabel'`)
	require.Equal(t, 40, drop())
	require.Equal(t, [3]int64{6, 140, 120}, rows(), "a call is bounded, and an operation goes after its rows")
	for drop() == 40 {
	}
	require.Equal(t, [3]int64{3, 90, 60}, rows(), "a running operation stays, however old it is")
	require.Zero(t, b.number(`SELECT count(*) FROM operation WHERE ended_at < now() - interval '1 day'`))
}
