package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestStatisticsAddUpToTheLedger: what a node that stops in order has counted is what its ledger says, by queue and in
// sum.
func TestStatisticsAddUpToTheLedger(t *testing.T) {
	t.Parallel()
	b := start(t)
	s := newSink(t)
	b.create(t, "good", func(d *job.Definition) { d.Schedule = schedule.Spec{Every: "1s"}; d.Queue = "fast" })
	bad := b.create(t, "bad", func(d *job.Definition) { d.Target = s.target("/no"); d.Overlap = job.OverlapAllow })
	b.create(t, "hung", func(d *job.Definition) { d.Schedule = schedule.Spec{Every: "1s"}; d.Target = s.target("/hang") })
	for range 7 {
		_, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: namespace, ID: bad.ID, Actor: "x"}, nil)
		require.NoError(t, err)
	}
	b.eventually(t, 8, `SELECT count(*) FROM dead_letter`) // with the occurrence of its schedule
	b.eventually(t, 1, `SELECT count(*) FROM (SELECT FROM run_history WHERE ended = 4 LIMIT 1) s`)
	b.eventually(t, 1, `SELECT count(*) FROM (SELECT FROM run_history WHERE ended = 1 LIMIT 1) s`)
	close(s.release)
	b.stop()

	for _, queue := range []string{"", "fast", "default"} {
		var want, got [5]int64
		require.NoError(t, b.pool.QueryRow(t.Context(), `
			SELECT count(*) FILTER (WHERE ended = 1), count(*) FILTER (WHERE ended = 2), count(*) FILTER (WHERE ended = 3),
			       coalesce(sum(coalesce(count, 1)) FILTER (WHERE ended = 4 AND reason NOT LIKE 'missed%'), 0),
			       coalesce(sum(coalesce(count, 1)) FILTER (WHERE ended = 4 AND reason LIKE 'missed%'), 0)
			FROM run_history h JOIN queue q ON q.id = h.queue_id WHERE $1 IN ('', q.name)`, queue).
			Scan(&want[0], &want[1], &want[2], &want[3], &want[4]))
		require.NoError(t, b.pool.QueryRow(t.Context(), `
			SELECT coalesce(sum(succeeded), 0), coalesce(sum(failed), 0), coalesce(sum(cancelled), 0),
			       coalesce(sum(skipped), 0), coalesce(sum(missed), 0)
			FROM stat_minute s LEFT JOIN queue q ON q.id = s.queue_id
			WHERE s.namespace_id = $2 AND ($1 = '' AND s.queue_id = 0 OR $1 = q.name)`, queue, namespace).
			Scan(&got[0], &got[1], &got[2], &got[3], &got[4]))
		require.Equal(t, want, got, "queue %q", queue)
		require.Positive(t, want[0]+want[1])
	}
	var started, histogram, ended, took, minutes int64
	require.NoError(t, b.pool.QueryRow(t.Context(), `
		SELECT sum(started), sum((SELECT sum(n) FROM unnest(lateness) n)), sum(attempts), sum(attempt_ms) FROM stat_minute
		WHERE namespace_id = $1 AND queue_id = 0`, namespace).Scan(&started, &histogram, &ended, &took))
	require.Positive(t, started)
	require.Equal(t, started, histogram, "each start has a lateness")
	require.Equal(t, started, ended, "each attempt that started has ended")
	require.Positive(t, took)
	require.NoError(t, b.pool.QueryRow(t.Context(),
		`SELECT count(*) FROM stat_minute WHERE namespace_id = '00000000-0000-0000-0000-000000000000'`).Scan(&minutes))
	require.Positive(t, minutes, "the process was counting")
}

// TestLateRunsAreCounted: runs that do not start, here because no worker asks for them, are late at the next sample.
func TestLateRunsAreCounted(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.create(t, "pulled", func(d *job.Definition) {
		d.Schedule, d.Queue = schedule.Spec{At: "2040-01-01T00:00:00Z"}, "workers"
		d.Target = job.Target{Kind: "worker", Config: []byte(`{"handler":"x"}`)}
	})
	_, err := b.pool.Exec(t.Context(), `INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt,
			priority, origin, admit, queue_id, needs_sweep, handler)
		SELECT partition, g, 1, id, now() - interval '1 min', now() - interval '1 min', 0, 0, 0, 1, 0, queue_id, false, 'x'
		FROM job, generate_series(1, 3) g WHERE name = 'pulled'`)
	require.NoError(t, err)
	var late int64
	require.Eventually(t, func() bool {
		_, err := b.sampleOnce(t.Context())
		require.NoError(t, err)
		_, err = b.statsOnce(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.pool.QueryRow(t.Context(),
			`SELECT coalesce(max(late), 0) FROM stat_minute WHERE namespace_id = $1 AND queue_id = 0`, namespace).Scan(&late))
		return late == 3
	}, time.Minute, 50*time.Millisecond)
}
