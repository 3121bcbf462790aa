package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestOverviewReadsIndexes: whatever the statistics say, an overview reads no more of the large tables than its limits.
func TestOverviewReadsIndexes(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.dead(20_000, 2, 3)
	b.shared(5000)
	b.exec(`UPDATE job SET state = 2 WHERE name LIKE '%7'`)
	b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
			status, queue_id, reason)
		SELECT partition, 0, 1, id, now(), now(), now(), 2 + 2 * (version % 2), 1, 0, 500, 1, 'attempts' FROM job`)
	var o job.Overview
	sent := r.during(func() {
		var err error
		o, err = b.store.Overview(t.Context(), bulkUUID())
		require.NoError(t, err)
	})
	require.Equal(t, job.Capped{Count: job.MaxOverviewCount, More: true}, o.DeadLetters)
	require.EqualValues(t, 500, o.PausedJobs.Count)
	require.True(t, o.SkippedMore)
	require.Len(t, o.Minutes, job.OverviewMinutes)
	for _, statistics := range []string{"never analysed", "analysed"} {
		ways := slices.DeleteFunc(b.explain(sent, "force_custom_plan"), func(way string) bool {
			return strings.HasPrefix(way, "sort of") || way == "hash join" || way == "materialize of session" || // of small tables
				strings.Contains(way, "audit_finding") // empty in a healthy cluster
		})
		require.Equal(t, []string{
			"dead_letter by queue_id", "job by namespace_id state", "job by partition id",
			"partition", "queue", "run_history by queue_id ended ended_at", "session",
			"stat_minute by namespace_id queue_id minute",
		}, ways, statistics)
		b.exec(`ANALYZE dead_letter, job, run_history, cursor`)
	}
}

// TestSomeLiveRunsAreNotAll: if not all live runs were read, nothing claims that there are no others.
func TestSomeLiveRunsAreNotAll(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.shared(100)
	b.pending(2)
	b.exec(`UPDATE run SET run_at = now() - interval '1 min'`)
	live, err := b.store.LiveRuns(t.Context())
	require.NoError(t, err)
	require.True(t, live.Complete)
	require.EqualValues(t, 200, live.Queues[1].Late)
	require.EqualValues(t, 200, live.Queues[1].Due)
	require.False(t, live.Queues[1].OldestDue.IsZero())
	live, err = b.store.SomeLiveRuns(t.Context(), 50)
	require.NoError(t, err)
	require.False(t, live.Complete)
	require.EqualValues(t, 50, live.Queues[1].Late)
}
