package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	first := b.create(definition("a", everyHour))
	create := func(namespace, id uuid.UUID, d job.Definition) error {
		_, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: namespace, ID: id, Definition: d})
		return err
	}
	err := create(b.namespace, uuid.Nil, definition("a", everyHour))
	require.ErrorIs(t, err, job.ErrConflict)
	require.ErrorContains(t, err, `"a"`)
	require.ErrorIs(t, create(b.namespace, first.ID, definition("b", everyHour)), job.ErrConflict)
	require.NoError(t, create(uuid.New(), uuid.Nil, definition("a", everyHour)), "a name belongs to its namespace")
	err = create(b.namespace, uuid.Nil, definition("", schedule.Spec{Cron: "61 * * * *"}))
	require.Len(t, problem.All(err), 2, "all that is wrong")
	var n int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM job_version`).Scan(&n))
	require.Equal(t, 2, n, "a refused create leaves nothing")
}

// cursors counts the cursors.
func (b *jobs) cursors() (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM cursor`).Scan(&n))
	return n
}

func TestJobsOfOneScheduleShareACursor(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", schedule.Spec{Every: "60s"})
	b.create(d)
	for name, change := range map[string]func(*job.Definition){
		"written otherwise": func(d *job.Definition) { d.Schedule.Every = "1m" },
		"jitter":            func(d *job.Definition) { d.Schedule.Jitter = "30s" },
		"start": func(d *job.Definition) {
			d.Schedule.StartAt = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		},
		"end":    func(d *job.Definition) { d.Schedule.EndAt = time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC) },
		"paused": func(d *job.Definition) { d.Missed.Paused = job.MissedAll },
		"target": func(d *job.Definition) { d.Target.Kind = "http" },
	} {
		other := d
		other.Name = name
		change(&other)
		b.create(other)
		require.Equal(t, 1, b.cursors(), name)
	}
	other := d
	other.Name, other.Missed.Policy = "another missed policy", job.MissedSkip
	b.create(other)
	require.Equal(t, 2, b.cursors())
	other.Name, other.Schedule.Every = "another schedule", "2m"
	b.create(other)
	require.Equal(t, 3, b.cursors())
	_, err := b.store.CreateJob(
		t.Context(), job.CreateParams{Namespace: uuid.New(), ID: idIn(partition), Definition: d},
	)
	require.NoError(t, err)
	require.Equal(t, 4, b.cursors(), "another namespace")
}

func TestCreateWritesWhatThePlannerHasPassed(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	first := b.create(definition("first", everySecond))
	require.Empty(t, b.ledger(first), "a new cursor has planned nothing")
	const ahead = 2 * time.Minute // so long that it does not end during the test
	end := b.plan(ahead).Now.Add(ahead)
	require.Equal(t, grid(time.Second, first.CreatedAt, end), dueTimes(b.live(first)))

	second := b.create(definition("second", everySecond))
	require.Equal(t, grid(time.Second, second.CreatedAt, end), dueTimes(b.live(second)))

	d := definition("bounded", everySecond)
	d.Schedule.StartAt = end.Add(-9*time.Second - time.Nanosecond)
	d.Schedule.EndAt = end.Truncate(time.Second).Add(-2 * time.Second)
	bounded := b.create(d)
	require.Equal(
		t, grid(time.Second, d.Schedule.StartAt.Add(-time.Microsecond), d.Schedule.EndAt.Add(-time.Microsecond)),
		dueTimes(b.live(bounded)),
	)
	require.Equal(t, job.Active, bounded.State, "until its last run is due")
}

// TestRunAtIsTheSameInGoAndInSQL: create computes jitter in Go, plan in SQL.
func TestRunAtIsTheSameInGoAndInSQL(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	var planned []job.Job
	for _, jitter := range []string{"0s", "1ms", "7ms", "1s", "90s", "24h"} {
		d := definition("jitter "+jitter, everySecond)
		d.Schedule.Jitter = jitter
		planned = append(planned, b.create(d))
	}
	b.plan(100 * time.Second)
	compared := 0
	for _, j := range planned {
		s, err := schedule.New(j.Schedule, j.ID.String())
		require.NoError(t, err)
		for _, e := range b.live(j) {
			require.Equal(t, s.RunAt(e.Due, j.ID.String()), e.RunAt, "%s at %s", j.Name, e.Due)
			compared++
		}
		d := j.Definition
		d.Name += ", created late"
		late := b.create(d)
		require.NotEmpty(t, b.live(late))
		for _, e := range b.live(late) {
			require.Equal(t, s.RunAt(e.Due, late.ID.String()), e.RunAt)
		}
	}
	require.GreaterOrEqual(t, compared, 6*99)

	// What is caught up runs now, or as late as its jitter says.
	b.exec(`DELETE FROM run`)
	for _, j := range planned {
		b.back(j, 5*time.Minute)
	}
	b.cursorBack(planned[0], 5*time.Minute)
	now := b.plan(0).Now.UTC()
	for _, j := range planned {
		s, err := schedule.New(j.Schedule, j.ID.String())
		require.NoError(t, err)
		e := b.live(j)[0]
		require.Equal(t, job.FromMissed, e.Origin)
		want := s.RunAt(e.Due, j.ID.String())
		if want.Before(now) {
			want = now
		}
		require.Equal(t, want, e.RunAt, j.Name)
	}
}

func TestAOneOffInThePast(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	now := b.now().Truncate(time.Second)
	at := func(name string, when time.Time, created job.MissedPolicy) job.Job {
		d := definition(name, schedule.Spec{At: when.UTC().Format(time.RFC3339Nano)})
		d.Missed.Created = created
		return b.create(d)
	}
	old := now.Add(-time.Hour)
	j := at("once", old, "")
	require.Equal(t, job.Finished, j.State)
	require.Equal(t, []entry{{Due: old, Count: 1, RunAt: j.CreatedAt, Origin: job.FromMissed}}, b.ledger(j))
	j = at("skip", old, job.MissedSkip)
	require.Equal(
		t, []entry{{Due: old, Count: 1, RunAt: old, Ended: job.EndedSkipped, Reason: job.ReasonMissed}}, b.ledger(j),
	)
	// On a slow machine the grace may pass before it is created, so the test tries more than once.
	for try := 1; ; try++ {
		now = b.now().Truncate(time.Second)
		j = at(fmt.Sprintf("late %d", try), now, job.MissedSkip)
		if j.CreatedAt.Sub(now) <= job.MissedGrace {
			break
		}
	}
	require.Equal(t, []entry{{Due: now, Count: 1, RunAt: j.CreatedAt}}, b.ledger(j))

	soon := b.now().Truncate(time.Second).Add(2 * time.Minute)
	j = at("soon", soon, "")
	require.Equal(t, job.Active, j.State)
	require.Empty(t, b.ledger(j))
	b.plan(3 * time.Minute)
	j = at("soon too", soon, "")
	require.Equal(t, job.Active, j.State)
	require.Equal(t, []entry{{Due: soon, Count: 1, RunAt: soon}}, b.ledger(j), "the cursor has ended, but not the wait")
	b.plan(4 * time.Minute)
	require.Len(t, b.ledger(j), 1)
}

func TestAJobThatJoinsACursorWhichIsBehindGetsNothingFromBeforeIt(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("first", everySecond)
	d.Missed.Policy = job.MissedAll
	first := b.create(d)
	b.back(first, 8*time.Second)
	b.cursorBack(first, 8*time.Second)
	d.Name = "second"
	second := b.create(d)
	end := b.plan(5 * time.Second).Now.Add(5 * time.Second)
	require.Equal(t, grid(time.Second, second.CreatedAt, end), dueTimes(b.live(second)))
	require.Equal(t, grid(time.Second, first.CreatedAt.Add(-8*time.Second), end), dueTimes(b.live(first)))
}
