package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// recent returns the newest runs and skips of jobs as strings: minutes before now, state and reason.
func (b *jobs) recent(jobs ...job.Job) (out [][]string) {
	b.t.Helper()
	found, err := b.store.RecentRuns(b.t.Context(), b.namespace, jobs)
	require.NoError(b.t, err)
	now := b.now()
	for _, r := range found {
		texts := []string{}
		for _, e := range r.Entries {
			text := fmt.Sprintf("%.0f %s", now.Sub(e.DueAt).Minutes(), e.Status)
			if e.Reason != "" {
				text += " " + string(e.Reason)
			}
			if e.Count > 0 {
				text += fmt.Sprintf(" x%d", e.Count)
			}
			texts = append(texts, text)
		}
		if r.Partial {
			texts = append(texts, "partial")
		}
		out = append(out, texts)
	}
	return out
}

// insertEnded inserts an entry of a job: $1 job, $2 due, $3 ended, $4 how, $5 origin, $6 last due, $7 count, $8 reason.
const insertEnded = `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
                         status, queue_id, due_to, count, reason)
SELECT partition, 0, 1, id, $2::timestamptz, $2::timestamptz, $2::timestamptz, $3, $4, 1, $5, 200, queue_id, $6, $7, $8
FROM job WHERE id = $1`

func TestRecentRuns(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("busy", everyHour)
	busy, quiet, skipped := b.create(d), b.create(definition("quiet", everyHour)), b.create(definition("skipped", everyMinute))
	b.born(busy, b.now().Add(-time.Hour))
	now := b.now()
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	for i := range 20 { // 12 are shown
		b.exec(insertEnded, busy.ID, ago(60+i), ago(59), 1, 0, nil, nil, nil)
	}
	b.exec(insertEnded, busy.ID, ago(50), ago(49), 2, 0, nil, nil, "attempts")
	b.exec(insertEnded, busy.ID, ago(50), ago(40), 1, 4, nil, nil, nil) // redriven: the last end counts
	b.exec(insertEnded, busy.ID, ago(30), ago(20), 4, 0, ago(20), 3, "paused")
	b.exec(`INSERT INTO run (partition, job_id, due_at, seq, version, run_at, queue_id, state, attempt, priority, origin, admit,
    needs_sweep)
SELECT partition, id, now() + d * interval '1 min', 0, 1, now() + d * interval '1 min', queue_id, 0, 0, 0, 0, 0,
    false
FROM job, unnest(ARRAY[-5, 5]) d WHERE id = $1`, busy.ID)

	b.born(skipped, b.now().Add(-10*time.Minute))
	b.exec(`INSERT INTO cursor_skip (partition, cursor_id, from_due, to_due, count, reason, created_at, namespace_id)
SELECT partition, cursor_id, now() - f * interval '1 min', now() - (f - 1) * interval '1 min', 2, r, now(), namespace_id
FROM job, unnest(ARRAY[30, 9, 6, 4], ARRAY['missed', 'missed', 'calendar', 'missed_window']) AS s(f, r)
WHERE id = $1`, skipped.ID)
	want := [][]string{
		{
			"68 succeeded", "67 succeeded", "66 succeeded", "65 succeeded", "64 succeeded", "63 succeeded",
			"62 succeeded", "61 succeeded", "60 succeeded", "50 succeeded", "30 skipped paused x3", "5 due",
		},
		{},
		{"9 skipped missed x2", "4 skipped missed_window x2"}, // not that of before it was created
	}
	require.Equal(t, want, b.recent(busy, quiet, skipped))
	b.exec(`UPDATE job SET state = 2, paused_at = now() WHERE id = $1`, skipped.ID)
	require.Empty(t, b.recent(skipped)[0], "what its cursor skips while it is paused is not its own")

	// A day of history that is too long ago to be read for a page.
	b.keepHistoryDay(b.now().AddDate(-6, 0, 0))
	require.Empty(t, b.recent(quiet)[0])
	quiet.CreatedAt = b.now().AddDate(-7, 0, 0)
	require.Equal(t, []string{"partial"}, b.recent(quiet)[0])
	busy.CreatedAt = quiet.CreatedAt
	require.Len(t, b.recent(busy)[0], job.MaxRecent, "it has all that are shown")
}

// keepHistoryDay creates one day of history.
func (b *jobs) keepHistoryDay(at time.Time) {
	b.t.Helper()
	day := at.UTC().Truncate(24 * time.Hour)
	b.exec(fmt.Sprintf(`CREATE TABLE run_history_%s PARTITION OF run_history FOR VALUES FROM ('%s') TO ('%s')`,
		day.Format("20060102"), day.Format(time.RFC3339), day.Add(24*time.Hour).Format(time.RFC3339)))
}

// TestRecentRunsWalkTheirIndexes, whatever the statistics say: no page may read all runs of a job.
func TestRecentRunsWalkTheirIndexes(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.exec(`ALTER TABLE job SET (autovacuum_enabled = false)`)
	b.shared(2_000)
	jobs := b.listed(100)
	sent := r.during(func() {
		_, err := b.store.RecentRuns(t.Context(), jobs[0].Namespace, jobs)
		require.NoError(t, err)
	})
	for _, statistics := range []string{"never analysed", "analysed"} {
		require.Equal(t, []string{
			"cursor by partition id", "cursor_skip by partition cursor_id from_due", "job by partition id", "queue",
			"run by partition job_id", "run_history by job_id",
		}, b.explain(ofHistory(sent), "force_custom_plan"), statistics)
		b.exec(`ANALYZE`)
	}
}

// ofHistory leaves out the statement that reads the days of history from the catalogue.
func ofHistory(sent []statement) (out []statement) {
	for _, s := range sent {
		if !isCatalogue(s.sql) {
			out = append(out, s)
		}
	}
	return out
}

func isCatalogue(sql string) bool { return strings.Contains(sql, "pg_inherits") }

// listed returns the first jobs.
func (b *bulk) listed(n int) []job.Job {
	b.t.Helper()
	var namespace uuid.UUID
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT namespace_id FROM job LIMIT 1`).Scan(&namespace))
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES (1, $1, 'default')
		ON CONFLICT DO NOTHING`, namespace)
	page, err := b.store.ListJobs(b.t.Context(), job.ListParams{Namespace: namespace, Limit: n})
	require.NoError(b.t, err)
	require.Len(b.t, page.Jobs, n)
	return page.Jobs
}
