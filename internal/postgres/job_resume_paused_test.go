package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func (b *jobs) pauseUntil(j job.Job, until time.Time) job.Change {
	b.t.Helper()
	c, err := b.store.PauseJob(
		b.t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID, Actor: "ann", Until: until}, "",
	)
	require.NoError(b.t, err)
	return c
}

// endPause moves the end of a job's pause to a time from now, and resumes what is to be resumed.
func (b *jobs) endPause(j job.Job, in time.Duration) (until time.Time) {
	b.t.Helper()
	until = b.now().Add(in).Truncate(time.Second)
	b.exec(`UPDATE job SET paused_until = $1 WHERE id = $2`, until, j.ID)
	b.exec(`UPDATE job_pause_end SET resume_at = $1 WHERE job_id = $2`, until, j.ID)
	n, err := b.store.ResumePaused(b.t.Context(), []int16{partition}, 10)
	require.NoError(b.t, err)
	require.Equal(b.t, 1, n)
	return until
}

// TestAPauseEnds: Belfry resumes a job at the end of its pause. The occurrence at that time and later ones run, and
// missed.paused decides about earlier ones.
func TestAPauseEnds(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", everySecond)
	d.Missed.Paused = job.MissedOnce
	j := b.create(d)
	later := b.now().Add(time.Hour)
	c := b.pauseUntil(j, later)
	require.Equal(t, c.Job, b.get(j))
	require.Equal(t, later, c.Job.PausedUntil)
	require.Equal(t, "ann", c.Job.PausedBy)
	require.False(t, b.pauseUntil(j, later).Changed)
	longer := b.pauseUntil(j, later.Add(time.Hour))
	require.True(t, longer.Changed, "another end")
	require.Equal(t, longer.Job, b.get(j))
	require.Equal(t, c.Job.PausedAt, longer.Job.PausedAt)
	n, err := b.store.ResumePaused(t.Context(), []int16{partition}, 10)
	require.NoError(t, err)
	require.Zero(t, n, "its end has not come")

	b.back(j, time.Minute)
	end := b.plan(40 * time.Second).Now.Add(40 * time.Second)
	until := b.endPause(j, time.Second)
	now := b.get(j)
	require.Equal(t, job.Active, now.State)
	require.Equal(t, "belfry", now.UpdatedBy)
	require.Zero(t, now.PausedUntil)
	require.Zero(t, now.PausedAt)
	live := b.live(j)
	require.Equal(t, grid(time.Second, until.Add(-2*time.Second), end), dueTimes(live), "one of the pause, and the rest")
	require.Equal(t, job.FromMissed, live[0].Origin)
	for _, e := range live {
		require.False(t, e.RunAt.Before(until), "nothing starts during the pause")
	}
	skipped := b.ended(j)
	require.Len(t, skipped, 1)
	require.Equal(t, job.ReasonPaused, skipped[0].Reason)
	require.Equal(t, until.Add(-2*time.Second), skipped[0].To)

	// Paused again before that end: what the first pause decided about is in the ledger once.
	b.pause(j)
	require.Empty(t, b.live(j))
	var due []time.Time
	for _, e := range b.ended(j) {
		if e.To.IsZero() {
			due = append(due, e.Due)
		}
	}
	require.Contains(t, due, until.Add(-time.Second))
}

// TestOnlyThePauseIsPaused: missed.paused decides about occurrences before the end of the pause and about no others,
// wherever the cursor is and however late the resume is. No run of the pause starts.
func TestOnlyThePauseIsPaused(t *testing.T) {
	t.Parallel()
	const ahead = 20 * time.Second
	tests := map[string]struct {
		ends   time.Duration    // from now
		policy job.MissedPolicy // of occurrences that an outage missed
		behind bool             // the cursor is behind: a node plans after the resume
		outage bool             // no node served the partition until MissedGrace ago
	}{
		"ended in an outage, cursor behind":    {-time.Minute, job.MissedAll, true, true},
		"ends after an outage, cursor behind":  {2 * time.Second, job.MissedAll, true, true},
		"ended in an outage, cursor ahead":     {-time.Minute, job.MissedAll, false, true},
		"ended in an outage, missed runs skip": {-time.Minute, job.MissedSkip, false, true},
		"cursor between the end and now":       {-105 * time.Second, job.MissedAll, true, true},
		"the resume is late":                   {-30 * time.Second, job.MissedSkip, false, false},
		"the resume is late, cursor behind":    {-30 * time.Second, job.MissedSkip, true, false},
		"many resumes come before it":          {-85 * time.Second, job.MissedSkip, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			d := definition("a", everySecond)
			d.Missed = job.Missed{Policy: test.policy, Paused: job.MissedSkip, CatchUpWindow: job.Duration(time.Hour)}
			j := b.create(d)
			b.pauseUntil(j, b.now().Add(time.Hour))
			b.back(j, 2*time.Minute)
			b.cursorBack(j, 90*time.Second)
			if !test.outage {
				b.exec(`UPDATE partition SET missed_until = NULL`)
			}
			var end time.Time
			if !test.behind {
				end = b.plan(ahead).Now.Add(ahead)
			}
			until := b.endPause(j, test.ends)
			if test.behind {
				end = b.plan(ahead).Now.Add(ahead)
			}
			first := until
			if test.policy == job.MissedSkip && test.outage {
				require.NoError(t, b.pool.QueryRow(
					t.Context(), `SELECT missed_until FROM partition WHERE id = $1`, partition,
				).Scan(&first))
			}
			live := b.live(j)
			require.Equal(t, grid(time.Second, first.Add(-time.Microsecond), end), dueTimes(live))
			for _, e := range live {
				require.False(t, e.RunAt.Before(until), "a run starts during the pause")
			}
			paused := false
			for _, e := range b.ended(j) {
				if e.Reason != job.ReasonPaused {
					require.Equal(t, job.ReasonMissed, e.Reason)
					require.False(t, e.Due.Before(until), "%v", e)
					continue
				}
				paused = true
				require.True(t, e.Due.Before(until), "%v", e)
				require.True(t, e.To.Before(until), "%v", e)
			}
			require.True(t, paused)
		})
	}
}

// TestAJobThatCannotBeResumedStopsNoOther: it is retried later, and resumed once its definition can be read.
func TestAJobThatCannotBeResumedStopsNoOther(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	resume := func() (int, error) { return b.store.ResumePaused(t.Context(), []int16{partition}, 2) }
	var jobs []job.Job
	for _, name := range []string{"a", "b", "c"} {
		j := b.create(definition(name, everyMinute))
		b.pauseUntil(j, b.now().Add(time.Hour))
		jobs = append(jobs, j)
	}
	gone := b.create(definition("gone", everyMinute))
	b.pauseUntil(gone, b.now().Add(time.Hour))
	b.remove(gone)
	b.exec(`UPDATE job SET paused_until = now()`)
	b.exec(`UPDATE job_pause_end p SET resume_at = now() - interval '1 s' * (SELECT count(*) FROM job WHERE id > job_id)`)
	b.exec(`UPDATE job SET schedule = '{"cron":"0 0 * * *","timezone":"No/Where"}' WHERE name IN ('a', 'b')`)
	n, err := resume()
	require.ErrorContains(t, err, "No/Where")
	require.Zero(t, n)
	n, err = resume()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, job.Active, b.get(jobs[2]).State)
	require.Equal(t, 2, b.count(`job_pause_end`), "those to be retried")

	b.exec(`UPDATE job SET schedule = '{"every":"1m"}'`)
	b.exec(`UPDATE job_pause_end SET resume_at = now()`)
	n, err = resume()
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, job.Active, b.get(jobs[0]).State)
	require.Zero(t, b.count(`job_pause_end`))
}

// TestAPauseHasOneEnd: another end, no end and a resume by a user leave no row of the old end.
func TestAPauseHasOneEnd(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("a", everyMinute))
	b.pauseUntil(j, b.now().Add(time.Hour))
	b.pauseUntil(j, b.now().Add(2*time.Hour))
	require.Equal(t, 1, b.count(`job_pause_end`))
	b.pauseUntil(j, time.Time{})
	require.Zero(t, b.count(`job_pause_end`))
	b.pauseUntil(j, b.now().Add(time.Hour))
	b.resume(j)
	require.Zero(t, b.count(`job_pause_end`))

	// A row that no longer agrees with the job.
	b.pauseUntil(j, b.now().Add(time.Hour))
	b.exec(`INSERT INTO job_pause_end SELECT partition, now(), job_id, namespace_id FROM job_pause_end`)
	n, err := b.store.ResumePaused(t.Context(), []int16{partition}, 10)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, job.Paused, b.get(j).State)
	require.Equal(t, 1, b.count(`job_pause_end`))
}

// TestTheSearchForEndsOfPausesIsBounded: a search begins shortly before the last one, so that it does not pass what was
// removed long ago. The first search in a partition begins at the oldest row.
func TestTheSearchForEndsOfPausesIsBounded(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	resume := func(partitions ...int16) int {
		n, err := b.store.ResumePaused(t.Context(), partitions, 10)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, resume(partition))
	j := b.create(definition("a", everyMinute))
	b.pauseUntil(j, b.now().Add(time.Hour))
	b.exec(`UPDATE job SET paused_until = now() - interval '1 h'`)
	b.exec(`UPDATE job_pause_end SET resume_at = now() - interval '1 h'`)
	require.Zero(t, resume(partition))
	require.Zero(t, resume(partition+1))
	require.Equal(t, 1, resume(partition), "it was another node's")
}

// TestAResumeThatFailedIsMissed: missed.policy decides about what was due while a job could not be resumed.
func TestAResumeThatFailedIsMissed(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", everySecond)
	d.Missed = job.Missed{Policy: job.MissedSkip}
	j := b.create(d)
	b.pauseUntil(j, b.now().Add(time.Hour))
	b.back(j, 5*time.Minute)
	b.plan(20 * time.Second)
	b.exec(`UPDATE job SET paused_until = now() - interval '3 min'`)
	b.exec(`UPDATE job_pause_end SET resume_at = now()`) // of the next try
	n, err := b.store.ResumePaused(t.Context(), []int16{partition}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NotEmpty(t, b.fates(j)["missed"])
	require.WithinDuration(t, b.now().Add(-time.Minute), b.live(j)[0].Due, 20*time.Second)
}

// TestAPauseEndedLongAgo: after an outage of weeks, a node that has already planned resumes the job too, and what was
// due since the end of the pause is in the ledger as missed.
func TestAPauseEndedLongAgo(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	b := setupJobs(t)
	d := definition("a", everySecond)
	d.Missed = job.Missed{Policy: job.MissedOnce, Paused: job.MissedSkip, CatchUpWindow: job.Duration(time.Hour)}
	j := b.create(d)
	b.pauseUntil(j, b.now().Add(time.Hour))
	b.back(j, 31*day)
	b.cursorBack(j, 0)
	end := b.plan(time.Minute).Now.Add(time.Minute)
	until := b.endPause(j, -30*day)
	live := b.live(j)
	require.Equal(t, job.FromMissed, live[0].Origin)
	require.Equal(t, job.FromSchedule, live[1].Origin)
	require.Equal(t, grid(time.Second, live[0].Due.Add(-time.Second), end), dueTimes(live))
	to := until
	for _, e := range b.ended(j) {
		if e.Reason == job.ReasonPaused {
			require.True(t, e.To.Before(until))
			continue
		}
		require.WithinDuration(t, to, e.Due, time.Second)
		to = e.To.Add(time.Second)
	}
	require.WithinDuration(t, live[0].Due, to, time.Second)
}

// TestAnUnchangedDefinitionIsNotWritten: no version, no audit entry and the same tag.
func TestAnUnchangedDefinitionIsNotWritten(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", everyMinute)
	d.Description, d.Owner, d.Labels = "what it is for\nin two lines", "billing", map[string]string{"a": "b"}
	d.Payload = []byte(`{"x": 1}`)
	created := b.create(d)
	require.Equal(t, "ann", created.CreatedBy)
	b.plan(2 * time.Minute)
	before, audit := b.get(created), b.count(`audit_log`)
	require.Equal(t, "billing", before.Owner)
	d.Payload = []byte(`{"x":1}`)
	require.Equal(t, before, b.update(created, d))
	require.Equal(t, before, b.get(created))
	require.Equal(t, 1, b.count(`job_version`))
	require.Equal(t, audit, b.count(`audit_log`))

	d.Owner = "sales"
	changed := b.update(created, d)
	require.EqualValues(t, 2, changed.Version)
	require.Equal(t, "bob", changed.UpdatedBy)
	require.Equal(t, "ann", changed.CreatedBy)
	require.Equal(t, changed, b.get(created))
	require.Equal(t, audit+1, b.count(`audit_log`))
}

// TestPausesOfNamespacesEndInTurns: many pauses of one namespace that end at the same time do not delay those of others.
func TestPausesOfNamespacesEndInTurns(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	until := b.now().Add(time.Hour)
	for i := range 20 {
		b.pauseUntil(b.create(definition(fmt.Sprint("many-", i), everyHour)), until)
	}
	b.namespace = uuid.New()
	one := b.create(definition("one", everyHour))
	b.pauseUntil(one, until)
	b.exec(`UPDATE job SET paused_until = now()`)
	b.exec(`UPDATE job_pause_end SET resume_at = now() - interval '1 s'`)
	b.exec(`UPDATE job_pause_end SET resume_at = now() WHERE job_id = $1`, one.ID)
	n, err := b.store.ResumePaused(t.Context(), []int16{partition}, 5)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.Equal(t, job.Active, b.get(one).State)
}
