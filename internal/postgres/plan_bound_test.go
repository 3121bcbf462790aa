package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// minutely creates n jobs of every minute with missed: all, on one cursor in each partition, that no node has planned
// for an hour.
func (b *bulk) minutely(n int) {
	b.t.Helper()
	b.exec(`INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed, next_due_at)
		SELECT p, p, ` + bulkNamespace + `, sha256(p::text::bytea), '{"cron":"* * * * *","timezone":"UTC"}',
		       '{"policy":"all","catch_up_window":"30m","max":100,"pace":"1s"}',
		       date_trunc('minute', now()) - interval '1 hour'
		FROM generate_series(0, 255) p`)
	b.insertJobs(n, `partition`)
	b.exec(`UPDATE job SET plan_from = now() - interval '1 day'`)
	b.exec(`UPDATE partition SET missed_until = now() - interval '10 s'`)
}

// TestPlanIsBounded: after an hour without nodes, jobs that share a schedule have more runs than one transaction may
// write. Each call of Plan writes a part of them and makes progress.
func TestPlanIsBounded(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	const jobs, bound = 400, 150
	b.minutely(jobs)
	b.exec(`UPDATE job SET partition = 7, cursor_id = 7`)
	next := func() (at time.Time) {
		row := b.pool.QueryRow(t.Context(), `SELECT next_due_at FROM cursor WHERE partition = 7 AND id = 7`)
		require.NoError(t, row.Scan(&at))
		return at
	}
	first := next()
	runs, largest := 0, 0
	for more := true; more; {
		planned, err := b.store.Plan(
			t.Context(), job.PlanParams{Partitions: []int16{7}, LookAhead: time.Second, Cursors: 500, Runs: bound},
		)
		require.NoError(t, err)
		require.Empty(t, planned.Broken)
		require.Equal(t, planned.Cursors > 0, len(planned.Runs)+int(planned.Skipped) > 0, "no progress")
		runs, largest, more = runs+len(planned.Runs), max(largest, len(planned.Runs)), planned.More
	}
	require.LessOrEqual(t, largest, bound)
	var stored, skipped int
	row := b.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM run), (SELECT sum(count) FROM cursor_skip)`)
	require.NoError(t, row.Scan(&stored, &skipped))
	require.Equal(t, stored, runs)
	require.Zero(t, stored%jobs, "each job has as many runs as the others")
	require.GreaterOrEqual(t, stored/jobs, 29)
	require.EqualValues(t, next().Sub(first)/time.Minute, stored/jobs+skipped, "each minute that the cursor passed")
	var unpaced int
	row = b.pool.QueryRow(t.Context(), `
SELECT count(*) FROM (
    SELECT run_at - lag(run_at) OVER (PARTITION BY job_id ORDER BY due_at) AS pause FROM run WHERE origin = 3) r
WHERE pause < interval '1 s'`)
	require.NoError(t, row.Scan(&unpaced))
	require.Zero(t, unpaced, "runs of one job that start too soon after another")
}

// TestPlanInPartsIsPlanAtOnce: however few runs a transaction writes, the jobs of a cursor get the same runs and end in
// the same state, also those that begin or end within what was missed.
func TestPlanInPartsIsPlanAtOnce(t *testing.T) {
	t.Parallel()
	var hour time.Time
	var whole map[string]int
	for _, bound := range []int{0, 1, 3, 7, 50} {
		b := setupBulk(t, nil)
		if hour.IsZero() {
			hour = b.now().Truncate(time.Minute)
		}
		b.minutely(30)
		b.exec(`UPDATE cursor SET missed = '{"policy":"all","catch_up_window":"168h","max":10000,"pace":"1s"}',
			next_due_at = $1::timestamptz - interval '1 hour'`, hour)
		b.exec(`UPDATE cursor SET missed = '{"policy":"once","catch_up_window":"168h"}' WHERE id = 8`)
		b.exec(`UPDATE cursor SET missed = '{"policy":"skip"}' WHERE id IN (9, 11)`)
		b.exec(`UPDATE cursor SET schedule = format('{"at":"%s"}', to_char($1::timestamptz - interval '30 min',
			'YYYY-MM-DD"T"HH24:MI:SSOF":00"')), next_due_at = $1::timestamptz - interval '30 min' WHERE id IN (10, 11)`, hour)
		b.exec(`UPDATE job SET partition = 7 + right(name, 1)::int % 5, cursor_id = 7 + right(name, 1)::int % 5,
			schedule = '{"cron":"* * * * *","timezone":"UTC"}', policy = '{"missed":{"policy":"all",
			"catch_up_window":"168h","max":10000,"pace":"1s"}}'`)
		b.exec(`UPDATE job SET end_at = $1::timestamptz - interval '20 min', schedule = format(
			'{"cron":"* * * * *","timezone":"UTC","end_at":"%s"}', to_char($1::timestamptz - interval '20 min',
			'YYYY-MM-DD"T"HH24:MI:SSOF":00"')) WHERE name = 'job-20'`, hour)
		b.exec(`UPDATE job SET plan_from = $1::timestamptz - interval '10 min' WHERE name = 'job-10'`, hour)
		b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (1, ` + bulkNamespace + `, 'q')`)
		for more := true; more; {
			planned, err := b.store.Plan(
				t.Context(), job.PlanParams{Partitions: []int16{7, 8, 9, 10, 11}, Cursors: 500, Runs: bound},
			)
			require.NoError(t, err)
			require.Empty(t, planned.Broken)
			require.LessOrEqual(t, len(planned.Runs), orElse(bound, job.PlanRuns))
			more = planned.More
		}
		var skips int
		row := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM cursor_skip WHERE cursor_id = 11`)
		require.NoError(t, row.Scan(&skips))
		require.Equal(t, 1, skips)
		got := b.outline(hour)
		if whole == nil {
			whole = got
			require.Len(t, whole, 30, "one line for each job")
			continue
		}
		require.Equal(t, whole, got, "%d runs in a transaction", bound)
	}
}

// outline returns how many jobs there are of each state, with their runs. Of the last minutes, and of what was missed
// with once, it depends on the instant of the plan which times run.
func (b *bulk) outline(hour time.Time) map[string]int {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `
SELECT format('%s state %s, runs %s', j.name, j.state, CASE WHEN j.cursor_id = 8 THEN count(*)::text
       ELSE array_agg(to_char($1 - r.due_at, 'MI') || r.origin ORDER BY r.due_at)::text END)
FROM job j LEFT JOIN run r
     ON r.job_id = j.id AND (j.cursor_id = 8 AND r.origin = 3 OR r.due_at < $1::timestamptz - interval '2 min')
GROUP BY j.name, j.state, j.cursor_id`, hour)
	require.NoError(b.t, err)
	out := map[string]int{}
	var text string
	_, err = pgx.ForEachRow(rows, []any{&text}, func() error { out[text]++; return nil })
	require.NoError(b.t, err)
	return out
}

// TestPlanLeavesOutTheBacklogOfAFullNamespace: its late cursors stay where they are.
func TestPlanLeavesOutTheBacklogOfAFullNamespace(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.minutely(100)
	b.exec(`UPDATE cursor SET next_due_at = date_trunc('minute', now()) + interval '1 min' WHERE partition % 2 = 0`)
	onTime := job.PlanParams{
		Partitions: allPartitions(), LookAhead: time.Minute, Cursors: 500,
		Full: []uuid.UUID{uuid.MustParse(strings.Trim(bulkNamespace, "'"))},
	}
	for more := true; more; {
		planned, err := b.store.Plan(t.Context(), onTime)
		require.NoError(t, err)
		more = planned.More
		for _, r := range planned.Runs {
			require.Zero(t, r.Partition%2, "late")
		}
	}
	var left int
	row := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM cursor WHERE next_due_at < now() - interval '1 min'`)
	require.NoError(t, row.Scan(&left))
	require.Equal(t, job.Partitions/2, left)
}

func orElse(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// afterAFortnight has cursors of every second in some partitions, each with its own jobs, that no node has planned for
// 14 days. It returns the partitions.
func (b *bulk) afterAFortnight(partitions, jobs int) []int16 {
	b.t.Helper()
	b.minutely(jobs)
	b.exec(`DELETE FROM cursor WHERE partition >= $1`, partitions)
	b.exec(`UPDATE cursor SET schedule = '{"every":"1s"}', missed = ` + bulkMissed + `,
		next_due_at = date_trunc('second', now()) - interval '14 days'`)
	b.exec(`UPDATE job SET partition = mod(partition, $1), cursor_id = mod(partition, $1), schedule = '{"every":"1s"}',
		plan_from = now() - interval '20 days', policy = '{"missed":' || `+bulkMissed+` || '}'`, partitions)
	return allPartitions()[:partitions]
}

// TestPlanVisitsABoundedNumberOfOccurrences: the connection is idle in its transaction while Plan visits what was
// missed, and PostgreSQL ends one that is idle for too long. Each transaction ends before that, and moves some cursors.
func TestPlanVisitsABoundedNumberOfOccurrences(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	in := job.PlanParams{Partitions: b.afterAFortnight(32, 32), LookAhead: time.Minute, Cursors: 500}
	before := 0
	for range 3 {
		planned, err := b.store.Plan(t.Context(), in)
		require.NoError(t, err)
		require.True(t, planned.More)
		var passed int
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT coalesce(sum(count), 0) FROM cursor_skip`).Scan(&passed))
		require.Greater(t, passed, before, "no progress")
		require.LessOrEqual(t, passed-before, 600_000)
		before = passed
	}
}

// TestSkipsOfALargeCursorAreOneRange: a due time with many jobs is written in parts, but what is skipped before it
// takes one transaction and one row.
func TestSkipsOfALargeCursorAreOneRange(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.minutely(20)
	b.exec(`UPDATE job SET partition = 7, cursor_id = 7`)
	b.exec(`UPDATE cursor SET missed = ` + bulkMissed)
	planned, err := b.store.Plan(
		t.Context(), job.PlanParams{Partitions: []int16{7}, LookAhead: time.Second, Cursors: 500, Runs: 10},
	)
	require.NoError(t, err)
	require.Len(t, planned.Runs, 10, "of the occurrence that runs")
	var reasons []string
	rows, err := b.pool.Query(t.Context(), `SELECT reason || ' ' || count FROM cursor_skip ORDER BY from_due`)
	require.NoError(t, err)
	reasons, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Len(t, reasons, 2, "outside the window, and the others: %v", reasons)
}
