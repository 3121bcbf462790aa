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
	b.exec(`UPDATE job SET state = 2, paused_by = CASE WHEN name LIKE '%77' THEN 'belfry' ELSE 'key:a [key_1]' END
		WHERE name LIKE '%7'`)
	b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
			status, queue_id, reason)
		SELECT partition, 0, 1, id, now(), now(), now(), 2 + 2 * (version % 2), 1, 0, 500, 1, 'attempts' FROM job`)
	b.exec(`INSERT INTO cursor_skip
		SELECT partition, id, now() - n * interval '1 d', now(), 1, 'missed', now(), namespace_id
		FROM cursor, generate_series(1, 4) n`)
	var o job.Overview
	sent := r.during(func() {
		var err error
		o, err = b.store.Overview(t.Context(), bulkUUID())
		require.NoError(t, err)
	})
	require.Equal(t, job.Capped{Count: job.MaxOverviewCount, More: true}, o.DeadLetters)
	require.EqualValues(t, 500, o.PausedJobs.Count)
	require.Equal(t, job.Capped{Count: 50}, o.PausedBelfry)
	require.True(t, o.SkippedMore, "of 61,440 ranges it reads 50,000")
	require.Len(t, o.Minutes, job.OverviewMinutes)
	for _, statistics := range []string{"never analysed", "analysed"} {
		ways := slices.DeleteFunc(b.explain(sent, "force_custom_plan"), func(way string) bool {
			return strings.HasPrefix(way, "sort of") || way == "hash join" || way == "materialize of session" || // of small tables
				strings.Contains(way, "audit_finding") // empty in a healthy cluster
		})
		require.Equal(t, []string{
			"cluster", "cursor by namespace_id plan_at", "cursor by partition id", "cursor_skip by namespace_id",
			"dead_letter by queue_id", "job by namespace_id", "job by namespace_id state",
			"job by partition cursor_id", "job by partition id", "partition", "queue",
			"run_history by queue_id ended ended_at", "session", "stat_minute by namespace_id queue_id minute",
		}, ways, statistics)
		b.exec(`ANALYZE dead_letter, job, run_history, cursor, cursor_skip`)
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
	late := func() job.LiveCount {
		o, err := b.store.Overview(t.Context(), bulkUUID())
		require.NoError(t, err)
		return o.LiveOf(&job.Live{})
	}
	require.Zero(t, late())

	var cursor int64
	var due time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `UPDATE cursor SET next_due_at = now() - interval '10 s'
		WHERE (partition, id) = (SELECT partition, cursor_id FROM job LIMIT 1) RETURNING id, next_due_at`).
		Scan(&cursor, &due))
	var jobs int64
	require.NoError(t,
		b.pool.QueryRow(t.Context(), `SELECT count(*) FROM job WHERE cursor_id = $1`, cursor).Scan(&jobs))
	var sum job.LiveCount
	sent := r.during(func() { sum = late() })
	require.Equal(t, jobs, sum.Late)
	require.Equal(t, due.UTC(), sum.OldestDue)
	for _, statistics := range []string{"never analysed", "analysed"} {
		ways := strings.Join(b.explain(sent, "force_custom_plan"), "\n")
		require.Contains(t, ways, "cursor by namespace_id plan_at", statistics)
		require.Contains(t, ways, "job by partition cursor_id", statistics)
		b.exec(`ANALYZE job, cursor`)
	}

	b.exec(`UPDATE job SET state = 2 WHERE cursor_id = $1`, cursor)
	require.Zero(t, late(), "paused jobs are not late")
	b.exec(`UPDATE job SET state = 1`)
	b.exec(`UPDATE cursor SET next_due_at = now() - interval '10 s'`)
	require.Greater(t, late().Late, jobs)
	require.True(t, late().More, "there may be more than it counts")
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
	b.exec(`UPDATE cluster SET alive = alive + interval '80 s'`)
	b.exec(`UPDATE session SET renewed_at = now() - interval '100 s', expires_at = now() - interval '50 s' WHERE id = $1`, silent)
	after := count()
	require.Positive(t, after.Late)
	require.EqualValues(t, 100, after.Running+after.Late)
	require.False(t, after.OldestDue.IsZero())
	b.exec(`UPDATE cluster SET alive = alive - interval '40 s'`)
	require.EqualValues(t, 100, count().Running, "after an outage its process has time to renew it")
}

// TestOverviewCountsTheLastHour: a job that failed often is found behind newer failures of others, and skips are counted
// by occurrence.
func TestOverviewCountsTheLastHour(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.queue(1, "default", bulkUUID())
	b.shared(3)
	insert := func(n int, ago string, ended job.Ended, reason string, job, count int) {
		t.Helper()
		b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
				status, queue_id, reason, message, count)
			SELECT j.partition, 0, 1, j.id, at, at, at, $3, 1, 0, 500, 1, $4, $4 || ' ' || i, $6
			FROM (SELECT * FROM job ORDER BY id OFFSET $5 LIMIT 1) j, generate_series(1, $1) i,
			     LATERAL (SELECT greatest(now() - $2::interval - i * interval '1 ms', date_trunc('day', now(), 'UTC')) AS at) x`,
			n, ago, int16(ended), reason, job, count)
	}
	insert(790, "40 min", job.EndedFailed, "old", 0, 1)
	insert(600, "1 min", job.EndedFailed, "new", 1, 1)
	insert(1100, "2 min", job.EndedSkipped, string(job.ReasonOverlap), 2, 1)
	insert(3, "30 min", job.EndedSkipped, string(job.ReasonMissed), 2, 7)
	o, err := b.store.Overview(t.Context(), bulkUUID())
	require.NoError(t, err)
	require.Len(t, o.Failing, 2)
	require.EqualValues(t, 790, o.Failing[0].Failed)
	require.Equal(t, "job-1", o.Failing[0].Name)
	require.Regexp(t, `^old \d+$`, o.Failing[0].Message)
	require.EqualValues(t, 600, o.Failing[1].Failed)
	require.False(t, o.FailingMore)
	require.Equal(t, []job.ReasonCount{{Reason: job.ReasonOverlap, Count: 1100}, {Reason: job.ReasonMissed, Count: 21}},
		o.Skipped)
	require.False(t, o.SkippedMore)
}

// TestOverviewCountsWhatNoNodeHadPlanned: what an outage missed is counted once for each job, whether it was planned
// before the outage or not.
func TestOverviewCountsWhatNoNodeHadPlanned(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("one", everyMinute)
	d.Missed = job.Missed{Policy: "skip"}
	one := b.create(d)
	d.Name = "two"
	two := b.create(d)
	other := &jobs{t: t, store: b.store, pool: b.pool, namespace: uuid.New()}
	node := b.unserved(one, two, other.create(d))
	b.catchUp(node)
	for more := true; more; {
		more = b.plan(time.Minute).More
	}
	planned := b.number(`SELECT sum(coalesce(count, 1)) FROM run_history WHERE job_id = $1`, one.ID)
	missed := int64(len(b.fates(one)["missed"]))
	require.Positive(t, planned)
	require.Greater(t, missed, planned)
	count := func() []job.ReasonCount {
		o, err := b.store.Overview(t.Context(), b.namespace)
		require.NoError(t, err)
		require.False(t, o.SkippedMore)
		return o.Skipped
	}
	require.Equal(t, []job.ReasonCount{{Reason: job.ReasonMissed, Count: 2 * missed}}, count())

	b.exec(`UPDATE cursor_skip SET created_at = created_at - interval '61 min'`)
	require.Equal(t, []job.ReasonCount{{Reason: job.ReasonMissed, Count: 2 * planned}}, count(), "it was long ago")
	b.exec(`UPDATE cursor_skip SET created_at = now(), reason = 'calendar'`)
	require.Equal(t, []job.ReasonCount{{Reason: job.ReasonMissed, Count: 2 * planned}}, count(), "it is no due time")
}
