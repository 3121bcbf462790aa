package archiver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/archiver"
	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// The nights on which clocks change in these zones, in UTC, and days on which none does.
var (
	auditZones = []string{
		"Europe/Berlin", "Europe/Lisbon", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata",
		"Pacific/Auckland", "UTC",
	}
	auditDays = []string{
		"2020-03-01", "2020-03-08", "2020-03-28", "2020-03-29", "2020-04-04", "2020-10-03", "2020-10-25", "2020-11-01",
	}
)

// audited is a bundle with jobs whose history is complete.
type audited struct {
	*bundle
	jobs  []job.Job
	queue int32
	times *auditor.Times // of the oracle, which shares no code with the planner
}

func newAudited(t *testing.T) *audited {
	b := &audited{bundle: setup(t), times: auditor.NewTimes(true)}
	store := pgtest.NewStore(b.pool)
	for _, zone := range auditZones {
		for i, s := range []schedule.Spec{
			{Cron: "30 2 * * *", Timezone: zone, DST: schedule.DST{Gap: "skip", Fold: "both"}},
			{Cron: "30 1,2,3 * * *", Timezone: zone},
			{Cron: "*/20 * * * *", Timezone: zone},
			{Every: "37m"},
		} {
			j, err := store.CreateJob(t.Context(), job.CreateParams{Namespace: access.DefaultNamespace, Definition: job.Definition{
				Name: fmt.Sprintf("%s-%d", zone, i), Schedule: s, Target: job.Target{Kind: "noop"},
			}})
			require.NoError(t, err)
			b.jobs = append(b.jobs, j)
		}
	}
	b.exec(`UPDATE job_version SET created_at = '2020-01-01'`)
	b.queue = one[int32](b.bundle, `SELECT id FROM queue WHERE name = 'default'`)
	for _, text := range auditDays {
		d, err := archive.ParseDay(text)
		require.NoError(t, err)
		b.exec(fmt.Sprintf(`CREATE TABLE %s PARTITION OF run_history FOR VALUES FROM ('%sZ') TO ('%sZ')
			WITH (autovacuum_enabled = false)`, d.Start().Format("run_history_20060102"), text,
			d.Start().AddDate(0, 0, 1).Format(time.DateOnly)))
		for i := range b.jobs {
			b.end(b.jobs[i].ID, time.Second, b.due(i, d)...)
		}
	}
	return b
}

// due lists the due times of a job on a day.
func (b *audited) due(i int, d archive.Day) []time.Time {
	definition := one[string](b.bundle, `SELECT definition FROM job_version WHERE job_id = $1`, [16]byte(b.jobs[i].ID))
	v, err := auditor.NewVersion(1, time.Time{}, []byte(definition))
	require.NoError(b.t, err)
	due, byOracle, err := b.times.Due(v.Spec, b.jobs[i].ID, auditor.DayOf(d.Start()))
	require.NoError(b.t, err)
	require.True(b.t, byOracle)
	return due
}

// end writes the ends of runs, some time after they are due. The last second of a day is not left.
func (b *audited) end(id uuid.UUID, after time.Duration, due ...time.Time) {
	b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt,
		    origin, status, queue_id)
		SELECT $1, 0, 1, $2, d, d, d, d + $3::interval, 1, 1, 0, 0, $4 FROM unnest($5::timestamptz[]) d`,
		job.PartitionOf(id), [16]byte(id), after, b.queue, due)
}

// archive exports and audits all days.
func (b *audited) archive() (out auditor.Report) {
	b.t.Helper()
	a, _ := b.node()
	a.Audit, a.Audited = b.db.Archive(), func(r auditor.Report) { out.Add(r) }
	require.NoError(b.t, a.Drain(b.t.Context()))
	const archived = `SELECT count(*) FROM archive_day WHERE archived_at IS NOT NULL`
	require.Equal(b.t, len(auditDays)+1, one[int](b.bundle, archived))
	return out
}

// TestADayIsAuditedExactly: on a healthy day nothing is found, whatever clocks do. Rows that are deleted by hand, doubled
// or invented are found, each of them and nothing else.
func TestADayIsAuditedExactly(t *testing.T) {
	t.Parallel()
	b := newAudited(t)
	total := one[int64](b.bundle, `SELECT count(*) FROM run_history`)
	r := b.archive()
	require.Zero(t, r.Found(), "%+v", r.Findings)
	require.Equal(t, [3]int64{total, total, total}, [3]int64{r.Expected, r.Run, r.ByDigest},
		"the pass alone accounts for every job")
	require.Zero(t, one[int](b.bundle, `SELECT count(*) FROM audit_finding`))

	want := map[string]auditor.Kind{}
	d, err := archive.ParseDay("2020-03-29")
	require.NoError(t, err)
	for i := range b.jobs {
		due := b.due(i, d)
		key := func(at time.Time) string { return b.jobs[i].ID.String() + at.UTC().Format(time.RFC3339) }
		switch i % 4 {
		case 0: // an entry of the day before that ended after midnight, and that no schedule demands
			at := d.Start().Add(-time.Second)
			b.end(b.jobs[i].ID, 2*time.Second, at)
			want[key(at)] = auditor.Phantom
		case 1: // a second entry, on the same day or on the next one
			at, after := due[0], 2*time.Second
			if i%8 == 1 {
				before := b.due(i, archive.DayOf(d.Start().Add(-time.Hour)))
				at = before[len(before)-1]
				after = d.Start().Sub(at) + time.Second
			}
			b.end(b.jobs[i].ID, after, at)
			want[key(at)] = auditor.Duplicate
		case 2: // one is lost, and another one has come: the number is right
			at := due[i%len(due)]
			b.exec(`DELETE FROM run_history WHERE job_id = $1 AND due_at = $2`, [16]byte(b.jobs[i].ID), at)
			b.end(b.jobs[i].ID, time.Second, at.Add(time.Second))
			want[key(at)], want[key(at.Add(time.Second))] = auditor.Missing, auditor.Phantom
		case 3:
			at := due[i%len(due)]
			b.exec(`DELETE FROM run_history WHERE job_id = $1 AND due_at = $2`, [16]byte(b.jobs[i].ID), at)
			want[key(at)] = auditor.Missing
		}
	}
	// A run of the day before that ended after midnight is none of them.
	b.exec(`UPDATE run_history SET ended_at = '2020-03-29T00:00:01Z'
		WHERE job_id = $1 AND due_at = (SELECT max(due_at) FROM run_history WHERE job_id = $1 AND due_at < '2020-03-29Z')`,
		[16]byte(b.jobs[2].ID))
	require.NotEmpty(t, want)
	found := b.archive() // the days have changed, so they are exported again
	got := map[string]auditor.Kind{}
	for _, f := range found.Findings {
		require.True(t, f.New)
		got[f.Job.String()+f.DueAt.UTC().Format(time.RFC3339)] = f.Kind
	}
	require.Equal(t, want, got)
	require.Equal(t, len(want), one[int](b.bundle, `SELECT count(*) FROM audit_finding`))
}

// brokenAudit is an audit that always fails.
type brokenAudit struct{}

func (brokenAudit) AuditDay(
	context.Context, archive.Day, func(int16, uuid.UUID) (auditor.Pass, error), func(auditor.Report) error,
) error {
	return errors.New("out of memory")
}

// TestAnAuditThatAlwaysFailsDoesNotKeepADay from the archive: it is archived after the third time, and marked until an
// audit succeeds. Other failures do not count.
func TestAnAuditThatAlwaysFailsDoesNotKeepADay(t *testing.T) {
	t.Parallel()
	b := newAudited(t)
	b.exec(`SELECT belfry_close_history() FROM generate_series(1, 20)`)
	day := auditDays[1]
	b.exec(`UPDATE archive_day SET archived_at = now() WHERE day <> $1`, day)
	state := func() (archived bool, failures int) {
		archived = one[bool](b.bundle, `SELECT archived_at IS NOT NULL FROM archive_day WHERE day = $1`, day)
		return archived, one[int](b.bundle, `SELECT audit_failures FROM archive_day WHERE day = $1`, day)
	}
	is := func(archived bool, failures int) {
		t.Helper()
		a, f := state()
		require.Equal(t, []any{archived, failures}, []any{a, f})
	}
	a, _ := b.node()
	a.Audit = brokenAudit{}
	for i := range 2 {
		require.ErrorContains(t, a.Drain(t.Context()), "audit: out of memory")
		is(false, i+1)
	}
	failing := *a
	failing.Step = func(name string) error {
		if name == "verify" {
			return errors.New("the bucket is gone")
		}
		return nil
	}
	require.ErrorContains(t, failing.Drain(t.Context()), "the bucket is gone")
	is(false, 2)
	var last archiver.Progress
	a.Progress = func(p archiver.Progress) { last = p }
	require.NoError(t, a.Drain(t.Context()))
	is(true, 3)
	require.EqualError(t, last.AuditError, "out of memory")
	unaudited, err := b.db.Archive().DaysUnaudited(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, unaudited)

	b.exec(`UPDATE archive_day SET changed = true WHERE day = $1`, day)
	a.Audit = b.db.Archive()
	require.NoError(t, a.Drain(t.Context()))
	is(true, 0)
}

// TestTheAuditOfADayEndsWhenItBecomesTheFirst: the skips of the day before were dropped with that, and some of them were
// for due times of this day.
func TestTheAuditOfADayEndsWhenItBecomesTheFirst(t *testing.T) {
	t.Parallel()
	b := newAudited(t)
	d, err := archive.ParseDay(auditDays[1])
	require.NoError(t, err)
	b.exec(`DELETE FROM run_history WHERE due_at >= $1 AND due_at < $1 + interval '1 h'`, d.Start())
	var r auditor.Report
	dropped := false
	require.NoError(t, b.db.Archive().AuditDay(t.Context(), d, func(int16, uuid.UUID) (auditor.Pass, error) {
		if !dropped {
			b.exec(`DROP TABLE run_history_20200229, run_history_20200301`)
			dropped = true
		}
		return auditor.Pass{}, nil
	}, func(part auditor.Report) error {
		r.Add(part)
		return nil
	}))
	require.True(t, dropped)
	require.Zero(t, r.Found())
	require.Zero(t, one[int](b.bundle, `SELECT count(*) FROM audit_finding`))
}

// TestASlowPageIsHalved: the audit of a day ends, however many entries its jobs have.
func TestASlowPageIsHalved(t *testing.T) {
	t.Parallel()
	b := newAudited(t)
	b.exec(`ALTER TABLE job_version RENAME TO all_versions`)
	b.exec(`CREATE FUNCTION slow() RETURNS boolean LANGUAGE plpgsql VOLATILE COST 100000 AS $$
		DECLARE n int := coalesce(nullif(current_setting('test.n', true), ''), '0')::int + 1;
		BEGIN
			PERFORM set_config('test.n', n::text, true);
			IF n > 80 THEN RAISE query_canceled; END IF;
			RETURN true;
		END $$`)
	b.exec(`CREATE VIEW job_version AS SELECT * FROM all_versions WHERE slow()`)
	b.exec(`GRANT SELECT ON job_version TO PUBLIC`)
	d, err := archive.ParseDay(auditDays[1])
	require.NoError(t, err)
	var r auditor.Report
	pages, asked := 0, map[uuid.UUID]int{}
	require.NoError(t, b.db.Archive().AuditDay(t.Context(), d, func(_ int16, id uuid.UUID) (auditor.Pass, error) {
		asked[id]++
		return auditor.Pass{}, nil
	}, func(part auditor.Report) error {
		r.Add(part)
		pages++
		return nil
	}))
	require.Greater(t, pages, 2)
	require.EqualValues(t, len(b.jobs), r.Jobs)
	require.Len(t, asked, len(b.jobs))
	require.Zero(t, r.Found())
	for _, n := range asked {
		require.Equal(t, 1, n, "what a pass found can be read once")
	}
}

// TestWorkStopsWithItsSession: otherwise it would go on while another process has its day.
func TestWorkStopsWithItsSession(t *testing.T) {
	t.Parallel()
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for name, r := range map[string]archiver.Renewal{
		"the session has ended": {time.Millisecond, time.Hour, func(context.Context) error { return job.ErrSessionExpired }},
		"no renewal in time":    {time.Millisecond, time.Nanosecond, func(context.Context) error { return errors.New("lost") }},
		"no reply in time": {time.Millisecond, 5 * time.Millisecond, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, r.Keeping(t.Context(), wait), "the session has ended: ")
		})
	}
	idle := archiver.Renewal{Every: time.Hour, TTL: time.Hour}
	require.NoError(t, idle.Keeping(t.Context(), func(context.Context) error { return nil }))
}

// TestAFailedRenewalIsRetried: the work goes on while the session lasts.
func TestAFailedRenewalIsRetried(t *testing.T) {
	t.Parallel()
	renewed, n := make(chan struct{}), 0
	r := archiver.Renewal{Every: time.Millisecond, TTL: time.Hour, Extend: func(context.Context) error {
		if n++; n < 5 {
			return errors.New("the connection is lost")
		}
		if n == 5 {
			close(renewed)
		}
		return nil
	}}
	require.NoError(t, r.Keeping(t.Context(), func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-renewed:
			return nil
		}
	}))
}
