package postgres_test

import (
	"testing"
	"time"

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
	n, err := b.store.ResumePaused(b.t.Context(), 10)
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
	n, err := b.store.ResumePaused(t.Context(), 10)
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

// TestAPauseEndsWhileNoNodeRuns: what was due after the end of the pause is missed by the outage, not by the pause.
func TestAPauseEndsWhileNoNodeRuns(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", everySecond)
	d.Missed = job.Missed{Policy: job.MissedAll, Paused: job.MissedSkip, CatchUpWindow: job.Duration(time.Hour)}
	j := b.create(d)
	b.pauseUntil(j, b.now().Add(time.Hour))
	b.back(j, 2*time.Minute)
	b.cursorBack(j, 90*time.Second)
	until := b.endPause(j, -time.Minute)
	end := b.plan(20 * time.Second).Now.Add(20 * time.Second)
	require.Subset(t, dueTimes(b.live(j)), grid(time.Second, until.Add(-time.Second), end))
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
