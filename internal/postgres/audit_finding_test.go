package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// keepHistory creates the days of history of a window, and the day before it.
func (b *jobs) keepHistory(w auditor.Window) {
	b.t.Helper()
	for day := w.From.Truncate(24 * time.Hour).Add(-48 * time.Hour); day.Before(w.To); day = day.Add(24 * time.Hour) {
		b.exec(fmt.Sprintf(`CREATE TABLE IF NOT EXISTS run_history_%s PARTITION OF run_history FOR VALUES FROM ('%s') TO ('%s')`,
			day.Format("20060102"), day.Format(time.RFC3339), day.Add(24*time.Hour).Format(time.RFC3339)))
	}
}

// born moves the creation of a job into the past.
func (b *jobs) born(j job.Job, at time.Time) {
	b.t.Helper()
	b.exec(`UPDATE job SET created_at = $1, updated_at = $1, plan_from = $1 WHERE id = $2`, at, j.ID)
	b.exec(`UPDATE job_version SET created_at = $1 WHERE job_id = $2`, at, j.ID)
	b.exec(`
UPDATE cursor SET created_at = $1 WHERE (partition, id) = (SELECT partition, cursor_id FROM job WHERE id = $2)`, at, j.ID)
}

const insertRan = `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
                         status, queue_id)
SELECT $1, 0, 1, $2, d, d, d, d + interval '1 s', 1, 1, 0, 200, 1 FROM unnest($3::timestamptz[]) d`

// lived creates a job that was created when the window began and ran at all its due times since.
func (b *jobs) lived(d job.Definition, w auditor.Window) job.Job {
	b.t.Helper()
	j := b.create(d)
	if j.CreatedAt.Sub(w.To) < time.Hour { // until now: its cursor continues from its creation
		w.To = j.CreatedAt
	}
	b.born(j, w.From)
	s, err := schedule.New(d.Schedule, j.ID.String())
	require.NoError(b.t, err)
	var due []time.Time
	for o := range s.All(w.From, w.To) {
		if o.Skip == "" {
			due = append(due, o.Due)
		}
	}
	b.exec(insertRan, j.Partition, j.ID, due)
	return j
}

// lose deletes rows of history by hand and returns their due times by job.
func (b *jobs) lose(n int, ids ...uuid.UUID) (lost []auditor.Finding) {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `
DELETE FROM run_history WHERE (job_id, due_at) IN (
    SELECT job_id, due_at FROM run_history WHERE job_id = ANY ($1) ORDER BY random() LIMIT $2)
RETURNING job_id, due_at`, ids, n)
	require.NoError(b.t, err)
	defer rows.Close()
	for rows.Next() {
		f := auditor.Finding{Kind: auditor.Missing}
		require.NoError(b.t, rows.Scan(&f.Job, &f.DueAt))
		f.DueAt = f.DueAt.UTC()
		lost = append(lost, f)
	}
	require.NoError(b.t, rows.Err())
	require.Len(b.t, lost, n)
	return lost
}

// plain leaves only what a test compares.
func plain(findings []auditor.Finding) (out []auditor.Finding) {
	for _, f := range findings {
		out = append(out, auditor.Finding{Kind: f.Kind, Job: f.Job, DueAt: f.DueAt})
	}
	return out
}

// lastChanges returns the last two instants at which the clock of a zone was changed.
func lastChanges(t *testing.T, zone string, before time.Time) (out []time.Time) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	for at := before; len(out) < 2; {
		start, _ := at.In(loc).ZoneBounds()
		out, at = append(out, start.UTC()), start.Add(-time.Second)
	}
	return out
}

// TestAuditAroundClockChanges: on the nights of clock changes in several zones, the oracle demands what the planner
// would have planned. Of what is deleted and added by hand, it finds exactly that.
func TestAuditAroundClockChanges(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	var specs []schedule.Spec
	for _, gap := range []schedule.Gap{schedule.GapShift, schedule.GapSkip} {
		for _, fold := range []schedule.Fold{schedule.FoldFirst, schedule.FoldSecond, schedule.FoldBoth} {
			for _, cron := range []string{"30 2 * * *", "15,45 0-3 * * *"} {
				specs = append(specs, schedule.Spec{Cron: cron, DST: schedule.DST{Gap: gap, Fold: fold}})
			}
		}
	}
	specs = append(specs, schedule.Spec{Cron: "0 0 * * *"}, schedule.Spec{Cron: "*/7 * * * *"}, schedule.Spec{Every: "45m"},
		schedule.Spec{RRule: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", Anchor: "2020-01-01T02:30:00"},
		schedule.Spec{Cron: "0 H(0-3) * * *"},
		schedule.Spec{Cron: "30 * * * *", Calendars: []schedule.Calendar{{Weekdays: []string{"sat"}}}})
	nights, occurrences, without := 0, int64(0), int64(0)
	for _, zone := range []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Beirut",
		"Africa/Casablanca", "America/St_Johns",
	} {
		for _, change := range lastChanges(t, zone, b.now().Add(-72*time.Hour)) {
			nights++
			w := auditor.Window{From: change.Add(-30 * time.Hour), To: change.Add(30 * time.Hour)}
			b.keepHistory(w)
			var ids []uuid.UUID
			for i, spec := range specs {
				spec.Timezone = zone
				ids = append(ids, b.lived(definition(fmt.Sprint(zone, change.Unix(), i), spec), w).ID)
			}
			p := auditor.Params{Window: w, Jobs: ids, Oracle: true}
			r := b.audit(p)
			require.Empty(t, r.Findings, "%s %s", zone, change)
			require.Equal(t, r.Expected, r.Run)
			require.Positive(t, r.Run-r.WithoutOracle)
			require.Zero(t, r.Unreadable)
			occurrences += r.Expected
			without += r.WithoutOracle

			lost := b.lose(20, ids...)
			phantom := auditor.Finding{Kind: auditor.Phantom, Job: ids[rand.IntN(len(ids))], DueAt: change.Add(7 * time.Second)}
			b.exec(insertRan, partition, phantom.Job, []time.Time{phantom.DueAt})
			r = b.audit(p)
			require.EqualValues(t, 20, r.Missing)
			require.ElementsMatch(t, append(slices.Clone(lost), phantom), plain(r.Findings))
		}
	}
	t.Logf("zones=7 nights=%d occurrences=%d without_oracle=%d lost=%d found=%d", nights, occurrences, without, 20*nights,
		20*nights)
}
