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
			"dead_letter by queue_id", "job by namespace_id", "job by namespace_id state", "job by partition id",
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
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (1, $1, 'zzz') ON CONFLICT DO NOTHING`,
		bulkUUID())
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

// TestLiveRunsOfOneNamespace: however large the backlog of a namespace is, another one with few jobs learns exactly how
// many of its own runs are late.
func TestLiveRunsOfOneNamespace(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(1000)
	b.pending(30)
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (1, $1, 'big') ON CONFLICT DO NOTHING`,
		bulkUUID())
	small := uuid.New()
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'small')`, small)
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (70001, $1, 'small')`, small)
	const few = `(SELECT id FROM job ORDER BY id LIMIT 3)`
	b.exec(`INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed, next_due_at)
		SELECT partition, 900000 + row_number() OVER (), $1, key, schedule, missed, now() + interval '1 hour'
		FROM cursor LIMIT 3`, small)
	b.exec(`UPDATE job j SET namespace_id = $1, queue_id = 70001, cursor_id = c.id, partition = c.partition
		FROM (SELECT id, row_number() OVER () AS n FROM job WHERE id IN `+few+`) x
		JOIN (SELECT partition, id, row_number() OVER () AS n FROM cursor WHERE namespace_id = $1) c USING (n)
		WHERE j.id = x.id`, small)
	b.exec(`DELETE FROM run WHERE job_id IN ` + few)
	b.exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
			queue_id, needs_sweep)
		SELECT partition, 0, 1, id, d, d, 0, 0, 0, 0, 1, 70001, false
		FROM job, LATERAL (SELECT now() + m * interval '1 hour' AS d FROM generate_series(-1, 7, 2) m) x WHERE namespace_id = $1`, small)
	b.exec(`UPDATE run SET run_at = now() - interval '1 min' WHERE queue_id = 1`)

	some, err := b.store.SomeLiveRuns(t.Context(), 50)
	require.NoError(t, err)
	require.False(t, some.Complete)
	var live job.Live
	read := func() (late job.LiveCount) {
		live, err = b.store.LiveRunsOf(t.Context(), small)
		require.NoError(t, err)
		require.True(t, live.Complete)
		return (&job.Overview{Namespace: small}).LiveOf(&live)
	}
	sent := r.during(func() { read() })
	require.EqualValues(t, 3, read().Late)
	require.EqualValues(t, 3, read().Due)
	require.EqualValues(t, 3, live.Queues[70001].Due)
	require.Len(t, live.Queues, 1, "and nothing of others")
	require.Zero(t, live.Broken[small])
	for _, statistics := range []string{"never analysed", "analysed"} {
		ways := strings.Join(b.explain(sent, "force_custom_plan"), "\n")
		require.Contains(t, ways, "run by partition job_id", statistics)
		require.Contains(t, ways, "job by namespace_id", statistics)
		require.Contains(t, ways, "cursor by namespace_id plan_at", statistics)
		require.NotRegexp(t, `(?m)^(run|job|cursor)$`, ways, "no table is read whole: %s", statistics)
		b.exec(`ANALYZE job, cursor, run`)
	}

	b.exec(`UPDATE cursor SET next_due_at = now() - interval '1 hour'`)
	b.exec(`UPDATE job SET plan_from = now() - interval '1 day'`)
	require.EqualValues(t, 6, read().Late, "occurrences without a run")
	b.exec(`UPDATE cursor SET broken_at = now(), retry_at = now() + interval '1 hour', problem = 'x'`)
	require.EqualValues(t, 3, read().Late)
	require.EqualValues(t, 3, live.Broken[small])
	require.False(t, live.BrokenMore)

	for name, c := range map[string]struct {
		jobs, runs int64
		want       bool
	}{"just enough": {3, 15, true}, "too many jobs": {2, 15, false}, "too many runs": {3, 14, false}} {
		live, err = b.store.LiveRunsOfFew(t.Context(), small, c.jobs, c.runs)
		require.NoError(t, err)
		require.Equal(t, c.want, live.Complete, name)
	}
}

// TestOverviewOfManyQueues: late runs count whatever the number of queues, and what is not searched is marked.
func TestOverviewOfManyQueues(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.shared(10)
	b.pending(1)
	b.exec(`UPDATE run SET run_at = now() - interval '1 min', queue_id = 20001`)
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE
		SELECT 10000 + i, $1, 'q' || to_char(i, 'FM00000') FROM generate_series(0, 10001) i`, bulkUUID())
	o, err := b.store.Overview(t.Context(), bulkUUID())
	require.NoError(t, err)
	require.True(t, o.HasJobs)
	require.True(t, o.DeadLetters.More)
	require.True(t, o.FailingMore)
	require.True(t, o.SkippedMore)
	live, err := b.store.LiveRuns(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 10, o.LiveOf(&live).Late)
	o, err = b.store.Overview(t.Context(), uuid.New())
	require.NoError(t, err)
	require.False(t, o.HasJobs)
	require.False(t, o.DeadLetters.More)
	require.Zero(t, o.LiveOf(&live).Late)
}

// TestUnplannedOccurrencesAreLate: an occurrence that is due and that no node has planned is late, although it has no run.
func TestUnplannedOccurrencesAreLate(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(5000)
	b.exec(`UPDATE cursor SET next_due_at = now() + interval '1 hour'`)
	b.exec(`UPDATE job SET plan_from = now() - interval '1 day'`)
	live, err := b.store.LiveRuns(t.Context())
	require.NoError(t, err)
	require.Empty(t, live.Unplanned)

	var cursor int64
	require.NoError(t, b.pool.QueryRow(t.Context(), `UPDATE cursor SET next_due_at = now() - interval '10 s'
		WHERE (partition, id) = (SELECT partition, cursor_id FROM job LIMIT 1) RETURNING id`).Scan(&cursor))
	var jobs int64
	require.NoError(t,
		b.pool.QueryRow(t.Context(), `SELECT count(*) FROM job WHERE cursor_id = $1`, cursor).Scan(&jobs))
	sent := r.during(func() { live, err = b.store.LiveRuns(t.Context()) })
	require.NoError(t, err)
	require.True(t, live.Complete)
	late := (&job.Overview{Namespace: bulkUUID()}).LiveOf(&live)
	require.Equal(t, jobs, late.Late)
	require.InDelta(t, 10, b.now().Sub(late.OldestDue).Seconds(), 9)
	for _, statistics := range []string{"never analysed", "analysed"} {
		ways := strings.Join(b.explain(sent, "force_custom_plan"), "\n")
		require.Contains(t, ways, "cursor by partition plan_at", statistics)
		require.Contains(t, ways, "job by partition cursor_id", statistics)
		b.exec(`ANALYZE job, cursor`)
	}

	b.exec(`UPDATE job SET state = 2 WHERE cursor_id = $1`, cursor)
	live, err = b.store.LiveRuns(t.Context())
	require.NoError(t, err)
	require.Empty(t, live.Unplanned, "paused jobs are not late")
	b.exec(`UPDATE job SET state = 1`)
	b.exec(`UPDATE cursor SET next_due_at = now() - interval '10 s'`)
	b.exec(`INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms,
			timeout_ms, plan_from, created_at, updated_at, name, target_kind, target_config, schedule, policy)
		SELECT partition, gen_random_uuid(), namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms,
			timeout_ms, plan_from, created_at, updated_at, name || '-2-' || g, target_kind, target_config, schedule, policy
		FROM job, generate_series(1, 2) g`)
	live, err = b.store.LiveRuns(t.Context())
	require.NoError(t, err)
	require.False(t, live.Complete, "there are more than it counts")
}

// TestRunsOfDeadProcessesAreLate: a run that a process claimed before it died does not run.
func TestRunsOfDeadProcessesAreLate(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.shared(100)
	b.pending(1)
	alive, silent := uuid.New(), uuid.New()
	_, err := b.store.Register(t.Context(), alive, "alive", time.Hour)
	require.NoError(t, err)
	_, err = b.store.Register(t.Context(), silent, "silent", time.Hour)
	require.NoError(t, err)
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (1, $1, 'zzz') ON CONFLICT DO NOTHING`,
		bulkUUID())
	b.exec(`UPDATE run SET run_at = now() - interval '1 min', state = 1, attempt = 1, claimed_at = now(),
		session_id = CASE WHEN get_byte(uuid_send(job_id), 15) % 2 = 0 THEN $1::uuid ELSE $2::uuid END`, alive, silent)
	count := func() job.LiveCount {
		live, err := b.store.LiveRuns(t.Context())
		require.NoError(t, err)
		return live.Queues[1]
	}
	require.EqualValues(t, 100, count().Running)
	require.Zero(t, count().Late)
	b.exec(`UPDATE cluster SET alive = alive + interval '5 s'`)
	b.exec(`UPDATE session SET renewed_at = now() - interval '10 s', expires_at = now() - interval '5 s' WHERE id = $1`, silent)
	after := count()
	require.Positive(t, after.Late)
	require.EqualValues(t, 100, after.Running+after.Late)
	require.False(t, after.OldestDue.IsZero())
	b.exec(`UPDATE cluster SET alive = alive - interval '1 s'`)
	require.EqualValues(t, 100, count().Running, "after an outage its process has time to renew it")
}
