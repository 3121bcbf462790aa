package app

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// values are the numbers of a metric by its labels, in the order of their names.
func (m *metrics) values(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			key := ""
			for _, l := range s.GetLabel() {
				key += l.GetValue() + " "
			}
			out[key] = value(f.GetType(), s)
		}
	}
	return out
}

func value(kind dto.MetricType, s *dto.Metric) float64 {
	switch kind {
	case dto.MetricType_COUNTER:
		return s.GetCounter().GetValue()
	case dto.MetricType_HISTOGRAM:
		return float64(s.GetHistogram().GetSampleCount())
	default:
		return s.GetGauge().GetValue()
	}
}

// ledger queries the same from the database: a string with the labels, and a number.
func (b *bundle) ledger(t *testing.T, query string) map[string]float64 {
	t.Helper()
	rows, err := b.pool.Query(context.Background(), query)
	require.NoError(t, err)
	defer rows.Close()
	out := map[string]float64{}
	for rows.Next() {
		var key string
		var n float64
		require.NoError(t, rows.Scan(&key, &n))
		out[key] = n
	}
	require.NoError(t, rows.Err())
	return out
}

// TestMetricsEqualTheLedger ends runs in all ways there are and compares what
// the node counted with what it wrote (invariant I12).
func TestMetricsEqualTheLedger(t *testing.T) {
	t.Parallel()
	b, s := start(t), newSink(t)
	b.eventually(t, job.Partitions, `SELECT count(*) FROM partition WHERE owner IS NOT NULL`)
	b.lose(t)
	// The dead session may have got some of them, and attempts would be interrupted.
	b.eventually(t, job.Partitions, `SELECT count(*) FROM partition p JOIN session s ON s.id = p.owner AND s.name = 'one'`)
	b.skipDueTimes(t)

	for i := range 5 {
		b.create(t, fmt.Sprintf("succeeds %d", i), func(d *job.Definition) { d.Target = s.target("/ok") })
	}
	b.create(t, "is rejected", func(d *job.Definition) { d.Target = s.target("/no") })
	b.create(t, "is gone", func(d *job.Definition) { d.Target = s.target("/gone") })
	b.create(t, "has no attempts left", func(d *job.Definition) {
		d.Target, d.Retry = s.target("/later"), job.Retry{MaxAttempts: 3, Backoff: job.BackoffNone}
	})
	b.create(t, "was missed", func(d *job.Definition) { d.Missed.Created = job.MissedSkip })
	every := func(policy job.Overlap) func(*job.Definition) {
		return func(d *job.Definition) {
			d.Schedule, d.Target, d.Overlap = schedule.Spec{Every: "1s"}, s.target("/hang"), policy
		}
	}
	endless := []job.Job{
		b.create(t, "overlaps", every(job.OverlapSkip)),
		b.create(t, "is replaced", every(job.OverlapReplace)),
		b.create(t, "fills its queue", every(job.OverlapQueue)),
	}
	deleted := b.create(t, "is deleted", every(job.OverlapQueueAll))
	paused := b.create(t, "is paused", every(job.OverlapQueueAll))

	b.eventually(t, 3, `
SELECT least(count(*), 3) FROM run r JOIN job j ON j.id = r.job_id
WHERE j.name = 'is deleted' AND r.state = 0 AND r.due_at < now()`)
	_, err := b.store.DeleteJob(t.Context(), job.ChangeParams{Namespace: namespace, ID: deleted.ID})
	require.NoError(t, err)
	b.eventually(t, 1, `
SELECT least(count(*), 1) FROM run r JOIN job j ON j.id = r.job_id
WHERE j.name = 'is paused' AND r.state = 0 AND r.due_at < now()`)
	_, err = b.store.PauseJob(t.Context(), job.ChangeParams{Namespace: namespace, ID: paused.ID}, "by the test")
	require.NoError(t, err)
	b.eventually(t, 2, `SELECT least(count(*), 2) FROM run_history WHERE ended = 4 AND reason = 'overlap'`)
	b.eventually(t, 2, `SELECT least(count(*), 2) FROM run_history WHERE ended = 3 AND reason = 'replaced'`)
	b.eventually(t, 2, `SELECT least(count(*), 2) FROM run_history WHERE ended = 4 AND reason = 'overlap_limit'`)
	close(s.release)
	_, err = b.store.ResumeJob(t.Context(), job.ChangeParams{Namespace: namespace, ID: paused.ID})
	require.NoError(t, err)
	for _, j := range append(endless, paused) {
		_, err = b.store.DeleteJob(t.Context(), job.ChangeParams{Namespace: namespace, ID: j.ID})
		require.NoError(t, err)
	}
	b.eventually(t, 0, `
SELECT count(*) FROM run r
WHERE r.state <> 0 OR EXISTS (SELECT FROM job j WHERE j.id = r.job_id AND j.name <> 'skips due times')`)
	_, err = b.sampleOnce(t.Context())
	require.NoError(t, err)
	b.stop()

	nonzero := func(name string) map[string]float64 {
		values := b.metrics.values(t, name)
		maps.DeleteFunc(values, func(_ string, n float64) bool { return n == 0 })
		return values
	}
	got := nonzero("belfry_runs_ended_total")
	require.Equal(t, b.ledger(t, `
SELECT (ARRAY['succeeded', 'failed', 'cancelled', 'skipped'])[ended] || ' default default ' || coalesce(reason, '') || ' ',
    sum(coalesce(count, 1))
FROM run_history GROUP BY 1`), got)
	for _, way := range []string{
		"succeeded default default  ", "failed default default rejected ", "failed default default gone ",
		"failed default default attempts ", "failed default default unknown_outcome ",
		"cancelled default default replaced ", "skipped default default overlap ",
		"skipped default default overlap_limit ", "skipped default default missed ",
		"skipped default default deleted ", "skipped default default paused ",
	} {
		require.Contains(t, got, way, "the test did not come to it")
	}
	require.Equal(t, b.ledger(t, `SELECT reason || ' ', sum(count) FROM cursor_skip GROUP BY 1`),
		nonzero("belfry_due_times_skipped_total"))
	require.Contains(t, nonzero("belfry_due_times_skipped_total"), "missed ")
	require.Equal(t, b.ledger(t, `SELECT 'default default ', count(*) FROM dead_letter`), nonzero("belfry_dead_letters"))

	attempts := 0.0
	for _, n := range b.metrics.values(t, "belfry_attempts_total") {
		attempts += n
	}
	require.InDelta(t, float64(s.received), attempts, 0, "each attempt reached the sink once, and none else did")
	require.Equal(t, map[string]float64{"default default ": attempts}, nonzero("belfry_schedule_lag_seconds"))
	require.Equal(t, map[string]float64{"default default ": attempts}, nonzero("belfry_attempt_seconds"))
	require.Equal(t, map[string]float64{"": 1}, b.metrics.values(t, "belfry_runs_rescued_total"))
}

// lose creates a run whose session died and which must not be retried.
func (b *bundle) lose(t *testing.T) {
	t.Helper()
	dead := uuid.New()
	_, err := b.store.Register(t.Context(), dead, "dead", time.Hour)
	require.NoError(t, err)
	j := b.create(t, "is lost",
		func(d *job.Definition) { d.Schedule.At, d.Delivery = "2100-01-01T00:00:00Z", job.AtMostOnce })
	_, err = b.pool.Exec(t.Context(), `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
    needs_sweep, session_id, claimed_at)
SELECT partition, 1, 1, id, now(), now(), 1, 1, 0, 1, 0, queue_id, false, $2, now() FROM job WHERE id = $1`, j.ID, dead)
	require.NoError(t, err)
	require.NoError(t, b.store.Unregister(t.Context(), dead))
}

// skipDueTimes creates a schedule that was not planned for years because no node served its partition.
func (b *bundle) skipDueTimes(t *testing.T) {
	t.Helper()
	b.create(t, "skips due times", func(d *job.Definition) {
		d.Schedule, d.Missed.Policy, d.Target.Kind = schedule.Spec{Cron: "0 0 1 1 *"}, job.MissedSkip, "noop"
	})
	_, err := b.pool.Exec(t.Context(), `
WITH unserved AS (UPDATE partition SET missed_until = now() - interval '10 s')
UPDATE cursor SET next_due_at = date_trunc('year', next_due_at) - interval '3 years', retry_at = now()
WHERE (partition, id) = (SELECT partition, cursor_id FROM job WHERE name = 'skips due times')`)
	require.NoError(t, err)
	b.eventually(t, 1, `SELECT count(*) FROM cursor_skip WHERE count > 1`)
}

func TestBrokenCursorsAreTold(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.eventually(t, job.Partitions, `SELECT count(*) FROM partition WHERE owner IS NOT NULL`)
	b.create(t, "breaks", func(d *job.Definition) { d.Schedule = schedule.Spec{Every: "1h"} })
	change := func(sql string) {
		_, err := b.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	broken := func(want float64) func() bool {
		return func() bool { return b.metrics.values(t, "belfry_cursors_broken")[""] == want }
	}
	change(`
UPDATE cursor
SET key = convert_to(schedule, 'UTF8'), schedule = '{"every":"of another version"}', next_due_at = now()`)
	require.Eventually(t, broken(1), time.Minute, 20*time.Millisecond)
	change(`UPDATE cursor SET schedule = convert_from(key, 'UTF8'), retry_at = now()`) // as its next try would find it
	require.Eventually(t, broken(0), time.Minute, 20*time.Millisecond)
}
