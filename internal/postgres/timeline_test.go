package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/timeline"
)

// timeline builds the timeline of a job.
func (b *jobs) timeline(id uuid.UUID, from, to time.Time) *timeline.Timeline {
	b.t.Helper()
	f, err := b.store.Timeline(b.t.Context(), timeline.Params{Namespace: b.namespace, Job: id, From: from, To: to})
	require.NoError(b.t, err)
	return timeline.Build(f)
}

// requireTimelines compares the timelines of all jobs with the audit: both account for the same occurrences, by the same
// kinds. The jobs are due at full minutes.
func (b *jobs) requireTimelines() {
	b.t.Helper()
	to := b.now().Truncate(time.Minute).Add(-30 * time.Second)
	w := auditor.Window{From: to.Add(-24 * time.Hour), To: to}
	audit := b.audit(auditor.Params{Window: w, Oracle: true})
	rows, err := b.pool.Query(b.t.Context(), `SELECT DISTINCT job_id FROM job_version`)
	require.NoError(b.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(b.t, err)
	got := auditor.Report{Skipped: map[job.Reason]int64{}}
	var forgotten, skipped int64
	for _, id := range ids {
		got.Jobs++
		line := b.timeline(id, w.From, w.To)
		require.False(b.t, line.Partial)
		for _, i := range line.Items {
			switch {
			case i.Entry != nil && i.Entry.Origin == job.FromBackfill:
				got.Backfilled++
			case i.Entry != nil && i.Entry.Status.Live():
				got.Live++
			case i.State == timeline.Skipped:
				got.Skipped[i.Reason]++
			case i.Entry != nil:
				got.Run++
			case i.State == timeline.Paused:
				got.Paused++
			case i.State == timeline.Due:
				got.NotPlanned++
			case i.State == timeline.Forgotten:
				forgotten++
			default:
				b.t.Errorf("%s is %s", i.DueAt, i.State)
			}
		}
	}
	for _, n := range audit.Skipped {
		skipped += n
	}
	if forgotten > 0 { // the audit reads ranges of cursors that are gone, users do not
		require.Equal(b.t, skipped, forgotten)
		got.Skipped = audit.Skipped
	}
	got.Expected = audit.Expected
	audit.WithoutOracle, audit.Findings = 0, nil
	if len(got.Skipped) == 0 {
		got.Skipped, audit.Skipped = nil, nil
	}
	require.Equal(b.t, audit, got)
}

func TestTimelineOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("a", everyHour))
	now := b.now()
	_, err := b.store.Timeline(t.Context(), timeline.Params{
		Namespace: uuid.New(), Job: j.ID, From: now.Add(-time.Hour), To: now,
	})
	require.ErrorIs(t, err, job.ErrNotFound)
}

// TestTimelineIsBounded: of too many entries the newest are read, and what is older is not covered.
func TestTimelineIsBounded(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	now := b.now().Truncate(time.Minute)
	j := b.create(definition("a", everyHour))
	b.born(j, now.AddDate(0, 0, -1))
	b.exec(`
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
                         status, queue_id)
SELECT partition, 1, 1, id, d, d, d, now(), 1, 1, 1, 200, queue_id
FROM job, generate_series($1::timestamptz - $2 * interval '1 s', $1, interval '1 s') d`, now, timeline.MaxEntries+1000)
	line := b.timeline(j.ID, now.AddDate(0, 0, -1), now)
	require.True(t, line.Partial)
	from := now.Add(-timeline.MaxEntries * time.Second)
	require.WithinDuration(t, from, line.From, 2*time.Second)
	runs := 0
	for _, i := range line.Items {
		if i.Entry != nil {
			runs++
		}
	}
	require.InDelta(t, timeline.MaxEntries, runs, 2)
}

// TestTimelineWalksItsIndexes, whatever the statistics say.
func TestTimelineWalksItsIndexes(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.exec(`ALTER TABLE job SET (autovacuum_enabled = false)`)
	b.shared(2_000)
	d := definition("a", everyHour)
	j, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: b.listed(1)[0].Namespace, Definition: d})
	require.NoError(t, err)
	sent := r.during(func() {
		now := b.now()
		_, err := b.store.Timeline(t.Context(), timeline.Params{
			Namespace: j.Namespace, Job: j.ID, From: now.AddDate(0, 0, -14), To: now.Add(-time.Hour),
		})
		require.NoError(t, err)
	})
	for _, statistics := range []string{"never analysed", "analysed"} {
		ways := slices.DeleteFunc(b.explain(ofHistory(sent), "force_custom_plan"), func(way string) bool {
			return way == "run by partition job_id seq" // PostgreSQL 18 may skip due_at in the same index
		})
		require.Equal(t, []string{
			"archive_day by day", "cursor by partition id", "cursor by partition namespace_id key",
			"cursor_skip by partition cursor_id from_due", "job by partition id", "job_version by partition job_id",
			"job_version by partition job_id version", "queue",
			"run by partition job_id due_at", "run by partition job_id due_at seq", "run_history by job_id due_at",
		}, ways, statistics)
		b.exec(`ANALYZE`)
	}
}
