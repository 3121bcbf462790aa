package postgres_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/why"
)

// number reads a number.
func (b *jobs) number(sql string, args ...any) (n int64) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

// outage creates a job that was created some time ago and whose partition no node has served since.
func (b *jobs) outage(d job.Definition, ago time.Duration) job.Job {
	b.t.Helper()
	j := b.create(d)
	at := b.now().Add(-ago)
	b.born(j, at)
	s, err := schedule.New(d.Schedule, j.ID.String())
	require.NoError(b.t, err)
	first, err := job.FirstDue(s, at)
	require.NoError(b.t, err)
	b.exec(`UPDATE cursor SET next_due_at = $1
WHERE (partition, id) = (SELECT partition, cursor_id FROM job WHERE id = $2)`, first, j.ID)
	b.exec(`DELETE FROM run WHERE job_id = $1`, j.ID)
	b.exec(`UPDATE partition SET missed_until = now() - $1::interval WHERE id = $2`, job.MissedGrace, j.Partition)
	return j
}

// TestAuditKnowsTheLifeOfAJob: what pauses, edits, deletes, limits and outages leave behind is accounted for. If the
// row that says so is deleted, the audit finds each occurrence that it stood for.
func TestAuditKnowsTheLifeOfAJob(t *testing.T) {
	t.Parallel()
	const ago = 3 * time.Hour
	minutely := func(name string, change ...func(*job.Definition)) job.Definition {
		d := definition(name, everyMinute)
		d.Missed = job.Missed{Policy: job.MissedSkip}
		for _, c := range change {
			c(&d)
		}
		return d
	}
	const skippedByCursor = `SELECT coalesce(sum(count), 0) FROM cursor_skip`
	for name, test := range map[string]func(*jobs) (lose string, found int64){
		"skipped by the cursor": func(b *jobs) (string, int64) {
			b.outage(minutely("a"), ago)
			b.plan(time.Minute)
			return `DELETE FROM cursor_skip`, b.number(skippedByCursor)
		},
		"skipped by a cursor that is gone since": func(b *jobs) (string, int64) {
			j := b.outage(minutely("a"), ago)
			b.plan(time.Minute)
			b.update(j, minutely("a", func(d *job.Definition) { d.Schedule = everyHour }))
			require.EqualValues(t, 1, b.number(`SELECT count(*) FROM cursor`))
			at := b.now().Add(-time.Hour).Truncate(time.Hour).Add(-time.Minute).Format(time.RFC3339)
			story, err := b.store.Why(t.Context(), why.Params{Namespace: b.namespace, Job: j.ID, At: at})
			require.NoError(t, err)
			require.Equal(t, why.Forgotten, story[0].Code, "users do not see ranges of a cursor that is gone")
			return `DELETE FROM cursor_skip`, b.number(skippedByCursor)
		},
		"skipped by a cursor that is gone since, and its successor has the same schedule": func(b *jobs) (string, int64) {
			j := b.outage(minutely("a"), ago)
			b.plan(time.Minute)
			j = b.update(j, minutely("a", func(d *job.Definition) { d.Schedule = everyHour }))
			b.update(j, minutely("a"))
			return `DELETE FROM cursor_skip`, b.number(skippedByCursor)
		},
		"caught up": func(b *jobs) (string, int64) {
			b.outage(minutely("a", func(d *job.Definition) {
				d.Missed = job.Missed{Policy: job.MissedAll, CatchUpWindow: job.Duration(ago), Max: 1000}
			}), ago)
			b.plan(time.Minute)
			return `DELETE FROM run WHERE ctid IN (SELECT ctid FROM run WHERE due_at < now() LIMIT 20)`, 20
		},
		"not planned yet": func(b *jobs) (string, int64) {
			b.outage(minutely("a"), ago)
			require.GreaterOrEqual(t, b.audit(auditor.Params{}).NotPlanned, int64(179))
			return `SELECT`, 0
		},
		"paused, and resumed": func(b *jobs) (string, int64) {
			j := b.create(minutely("a"))
			b.pause(j)
			b.born(j, b.now().Add(-ago)) // and paused at once
			require.GreaterOrEqual(t, b.audit(auditor.Params{}).Paused, int64(179))
			b.resume(j)
			return `DELETE FROM run_history`, b.number(`SELECT coalesce(sum(coalesce(count, 1)), 0) FROM run_history`)
		},
		"edited during an outage": func(b *jobs) (string, int64) {
			j := b.outage(minutely("a"), ago)
			b.update(j, minutely("a", func(d *job.Definition) { d.Schedule = everyHour }))
			return `DELETE FROM run_history`, b.number(`SELECT sum(coalesce(count, 1)) FROM run_history WHERE ended = 4`)
		},
		"ended": func(b *jobs) (string, int64) {
			end := b.now().Add(-2 * time.Hour)
			b.outage(minutely("a", func(d *job.Definition) { d.Schedule.EndAt = end }), ago)
			b.plan(time.Minute)
			return `SELECT`, 0
		},
		"a one-off in the past": func(b *jobs) (string, int64) {
			at := b.now().Add(-time.Hour).Format(time.RFC3339)
			b.create(definition("a", schedule.Spec{At: at}))
			require.EqualValues(t, 1, b.audit(auditor.Params{Oracle: true}).Expected)
			return `DELETE FROM run`, 1
		},
		"deleted": func(b *jobs) (string, int64) {
			j := b.outage(minutely("a"), ago)
			b.plan(time.Minute)
			b.remove(j)
			skipped := b.number(skippedByCursor)
			return `DELETE FROM cursor_skip`, skipped
		},
		"redriven": func(b *jobs) (string, int64) {
			now := b.now()
			j := b.lived(minutely("a"), auditor.Window{From: now.Add(-ago), To: now})
			b.exec(`INSERT INTO run_history
SELECT partition, seq, version, job_id, due_at, run_at, now(), started_at, 4 /* skipped */, 2, 4, status, queue_id, session_id
FROM run_history WHERE job_id = $1 AND due_at = (SELECT min(due_at) FROM run_history)`, j.ID)
			return `DELETE FROM run_history WHERE due_at = (SELECT min(due_at) FROM run_history)`, 1
		},
		"backfilled": func(b *jobs) (string, int64) {
			now := b.now()
			j := b.lived(minutely("a"), auditor.Window{From: now.Add(-ago), To: now})
			lost := b.lose(1, j.ID)[0]
			_, err := b.store.BackfillJob(t.Context(), job.BackfillParams{
				ChangeParams: job.ChangeParams{Namespace: b.namespace, ID: j.ID},
				From:         lost.DueAt, To: lost.DueAt.Add(time.Second), Max: 1,
			})
			require.NoError(t, err)
			require.EqualValues(t, 1, b.audit(auditor.Params{}).Backfilled)
			return `DELETE FROM run WHERE origin = 2`, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			b.keepHistory(auditor.Window{From: b.now().Add(-48 * time.Hour), To: b.now()})
			lose, found := test(b)
			r := b.audit(auditor.Params{Oracle: true})
			require.Empty(t, r.Findings[:min(len(r.Findings), 3)], "%s", &r)
			require.Zero(t, r.Unreadable)
			b.requireTimelines()
			if lose == `SELECT` {
				return
			}
			require.Positive(t, found)
			b.exec(lose)
			r = b.audit(auditor.Params{Oracle: true})
			// The minute that begins while the test runs may or may not be judged.
			require.InDelta(t, found, r.Missing, 1, "%s", &r)
			require.Equal(t, r.Missing, r.Wrong())
		})
	}
}

// TestAuditFindsWhatIsTooMany: duplicates, early runs and entries that no schedule demands.
func TestAuditFindsWhatIsTooMany(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	now := b.now()
	w := auditor.Window{From: now.Add(-3 * time.Hour), To: now}
	b.keepHistory(w)
	j := b.lived(definition("a", everyMinute), w)
	due := w.From.Truncate(time.Minute).Add(10 * time.Minute)
	b.exec(insertRan, j.Partition, j.ID, []time.Time{due, due.Add(time.Second), w.From.Add(-time.Minute)})
	b.exec(`UPDATE run_history SET ended_at = due_at - interval '1 ms' WHERE due_at = $1`, due.Add(time.Minute))
	want := []auditor.Finding{
		{Kind: auditor.Duplicate, Job: j.ID, DueAt: due},
		{Kind: auditor.Phantom, Job: j.ID, DueAt: due.Add(time.Second)},
		{Kind: auditor.Early, Job: j.ID, DueAt: due.Add(time.Minute)},
	}
	r := b.audit(auditor.Params{Window: w})
	require.Equal(t, want, plain(r.Findings), "what lies before the window is not judged")
	require.True(t, r.Findings[0].New)
	r = b.audit(auditor.Params{Window: auditor.Window{From: w.From.Add(-time.Hour), To: w.To}, Jobs: []uuid.UUID{j.ID}})
	require.Equal(t, auditor.Finding{Kind: auditor.Phantom, Job: j.ID, DueAt: w.From.Add(-time.Minute)},
		plain(r.Findings)[0], "it ran before it was created")
	require.True(t, r.Findings[0].New)
	require.False(t, r.Findings[1].New, "it is known since the audit before")
	story, err := b.store.Why(t.Context(), why.Params{
		Namespace: b.namespace, Job: j.ID, At: due.Add(time.Second).Format(time.RFC3339),
	})
	require.NoError(t, err)
	require.Contains(t, story[0].Text, "The audit found at")
}

// TestAuditSampleFindsWhatIsLost: of 12,000 occurrences of the last hour 1 in 1,000 is deleted. The samples of an hour
// find some of them, and nothing else. (That they find none has a probability of 1e-26.)
func TestAuditSampleFindsWhatIsLost(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	now := b.now()
	w := auditor.Window{From: now.Add(-time.Hour), To: now}
	b.keepHistory(w)
	var ids []uuid.UUID
	for i := range 200 {
		ids = append(ids, b.lived(definition(fmt.Sprint("job", i), everyMinute), w).ID)
	}
	sample := func() auditor.Report {
		r, err := b.store.AuditSample(t.Context(), []int16{partition})
		require.NoError(t, err)
		return r
	}
	r := sample()
	require.Empty(t, r.Findings[:min(len(r.Findings), 3)], "%s", &r)
	require.GreaterOrEqual(t, r.Expected, int64(200))
	r, err := b.store.AuditSample(t.Context(), []int16{partition + 1})
	require.NoError(t, err)
	require.Zero(t, r.Jobs, "a node judges its own partitions")

	lost := b.lose(12, ids...)
	found, first := []auditor.Finding{}, 0
	for round := 1; round <= 60; round++ {
		for _, f := range sample().Findings {
			if f.New {
				found = append(found, f)
			}
		}
		if first == 0 && len(found) > 0 {
			first = round
		}
	}
	t.Logf("lost=12 of 12000: first found in round %d, %d in 60 rounds", first, len(found))
	require.NotEmpty(t, found)
	require.Subset(t, lost, plain(found))
	require.Len(t, found, int(b.number(`SELECT count(*) FROM audit_finding`)), "each is new once")
}

// TestAuditSpeed prints how long an audit of many rows of history takes (BELFRY_AUDIT_ROWS), and how much of the
// database's time a sample takes.
func TestAuditSpeed(t *testing.T) {
	t.Parallel()
	rows, _ := strconv.Atoi(os.Getenv("BELFRY_AUDIT_ROWS"))
	rows = max(rows, 20_000)
	const each = 100 // occurrences of a job
	b := setupJobs(t)
	now := b.now().Truncate(time.Minute)
	w := auditor.Window{From: now.Add(-each * time.Minute), To: now}
	b.keepHistory(auditor.Window{From: w.From, To: w.To.Add(time.Hour)}) // the sample judges up to its own time
	for i := 0; i < rows/each; i += job.MaxBulk {
		bulk := job.BulkParams{Namespace: b.namespace}
		for k := i; k < min(i+job.MaxBulk, rows/each); k++ {
			spec := schedule.Spec{Cron: fmt.Sprintf("%d * * * * *", k%60)}
			bulk.Jobs = append(bulk.Jobs, job.NewJob{Definition: definition(fmt.Sprint("job", k), spec)})
		}
		_, err := b.store.CreateJobs(t.Context(), bulk)
		require.NoError(t, err)
	}
	b.exec(`UPDATE job SET created_at = $1, updated_at = $1, plan_from = $1`, w.From)
	b.exec(`UPDATE job_version SET created_at = $1`, w.From)
	b.exec(`
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
                         status, queue_id)
SELECT j.partition, 0, 1, j.id, d, d, d, d + interval '1 s', 1, 1, 0, 200, 1
FROM generate_series(0, $1 + 30) m, job j, LATERAL (
    SELECT $2::timestamptz + m * interval '1 min' + interval '1 s' * (j.schedule::json->>'cron' ~ '^0 ')::int * 60 +
           interval '1 s' * split_part(j.schedule::json->>'cron', ' ', 1)::int AS d) d`, each, w.From)
	b.exec(`VACUUM ANALYZE`)
	for _, oracle := range []bool{false, true} {
		from := clock.Elapsed()
		r := b.audit(auditor.Params{Window: w, Oracle: oracle})
		took := clock.Elapsed() - from
		require.Zero(t, r.Wrong(), "%+v", r.Findings[:min(3, len(r.Findings))])
		require.EqualValues(t, rows, r.Run)
		t.Logf("oracle=%t rows=%d jobs=%d in %s: %.0f rows/s", oracle, r.Run, r.Jobs, took.Round(time.Millisecond),
			float64(r.Run)/took.Seconds())
	}
	all := make([]int16, job.Partitions)
	for i := range all {
		all[i] = int16(i)
	}
	active := func() (ms float64) {
		b.exec(`SELECT pg_stat_force_next_flush()`)
		const activeTime = `SELECT active_time FROM pg_stat_database WHERE datname = current_database()`
		require.NoError(t, b.pool.QueryRow(t.Context(), activeTime).Scan(&ms))
		return ms
	}
	const rounds = 10
	before, judged := active(), int64(0)
	for range rounds {
		r, err := b.store.AuditSample(t.Context(), all)
		require.NoError(t, err)
		require.Zero(t, r.Wrong())
		judged += r.Expected
	}
	ms := (active() - before) / rounds
	t.Logf("sample: %d occurrences, %.1f ms of the database's time each minute, %.2f %%", judged/rounds, ms, ms/600)
}
