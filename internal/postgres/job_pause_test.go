package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func TestPause(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("a", b.soon(20*time.Second)))
	other := b.create(definition("b", everySecond))
	b.plan(40 * time.Second)
	due := b.live(j)
	late := due[0].Due.Add(-time.Minute)
	retry := late.Add(-time.Second)
	b.exec(`UPDATE run SET due_at = $2 WHERE job_id = $1 AND due_at = $3`, j.ID, late, due[0].Due)
	b.exec(`UPDATE run SET due_at = $2, attempt = 1 WHERE job_id = $1 AND due_at = $3`, j.ID, retry, due[1].Due)
	trigger, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID}, nil)
	require.NoError(t, err)

	c := b.pause(j)
	require.True(t, c.Changed)
	require.Equal(t, c.Job, b.get(j))
	require.Equal(t, job.Paused, c.Job.State)
	require.Equal(t, "on fire", c.Job.Note)
	require.Equal(t, c.Now, c.Job.UpdatedAt)
	require.Equal(
		t, []time.Time{retry, trigger.DueAt}, dueTimes(b.live(j)),
		"a retry and what a user asked for are carried out",
	)
	require.Equal(
		t, []entry{{Due: late, Count: 1, RunAt: due[0].Due, Ended: job.EndedSkipped, Reason: job.ReasonPaused}},
		b.ended(j),
	)
	again := b.pause(j)
	require.False(t, again.Changed)
	require.Equal(t, c.Job, again.Job)
	require.Len(t, b.ledger(j), 3)

	b.plan(60 * time.Second)
	require.Len(t, b.ledger(j), 3, "nothing is planned for it")
	require.NotEmpty(t, b.live(other))
	_, err = b.store.PauseJob(t.Context(), job.ChangeParams{Namespace: uuid.New(), ID: j.ID}, "")
	require.ErrorIs(t, err, job.ErrNotFound)
}

func TestResume(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		paused job.MissedPolicy
		runs   func(missed int) int
	}{
		"skip": {job.MissedSkip, func(int) int { return 0 }},
		"once": {job.MissedOnce, func(int) int { return 1 }},
		"all":  {job.MissedAll, func(missed int) int { return missed }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			d := definition("a", everySecond)
			d.Missed.Paused = tc.paused
			j := b.create(d)
			b.pause(j)
			b.back(j, time.Minute)
			end := b.plan(20 * time.Second).Now.Add(20 * time.Second)
			c := b.resume(j)
			require.True(t, c.Changed)
			require.Equal(t, c.Job, b.get(j))
			require.Equal(t, job.Active, c.Job.State)
			require.Empty(t, c.Job.Note)

			missed := grid(time.Second, j.CreatedAt.Add(-time.Minute), c.Now)
			require.EqualValues(t, len(missed), c.Missed)
			runs := tc.runs(len(missed))
			require.Equal(t, append(missed[len(missed)-runs:], grid(time.Second, c.Now, end)...), dueTimes(b.live(j)))
			if gone := missed[:len(missed)-runs]; len(gone) > 0 {
				require.Equal(t, []entry{{
					Due: gone[0], To: gone[len(gone)-1], Count: int64(len(gone)), RunAt: gone[0],
					Ended: job.EndedSkipped, Reason: job.ReasonPaused,
				}}, b.ended(j))
			} else {
				require.Empty(t, b.ended(j))
			}
			for i, e := range b.live(j)[:runs] {
				require.Equal(t, job.FromMissed, e.Origin)
				require.Equal(t, c.Now.Add(time.Duration(i)*time.Second), e.RunAt)
			}
			before := b.ledger(j)
			require.False(t, b.resume(j).Changed)
			require.Equal(t, before, b.ledger(j))
			end = b.plan(40 * time.Second).Now.Add(40 * time.Second)
			require.Equal(t, append(missed[len(missed)-runs:], grid(time.Second, c.Now, end)...), dueTimes(b.live(j)))
		})
	}
}

// TestPauseAndResumeWithACursorThatIsBehind: no planner runs before, during or after the pause.
func TestPauseAndResumeWithACursorThatIsBehind(t *testing.T) {
	t.Parallel()
	for name, planned := range map[string]bool{"planned in between": true, "never planned": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupJobs(t)
			d := definition("a", everySecond)
			d.Missed = job.Missed{Policy: job.MissedAll, Paused: job.MissedAll}
			j := b.create(d)
			b.back(j, 40*time.Second)
			b.cursorBack(j, 40*time.Second)
			b.pause(j)
			if planned {
				b.plan(5 * time.Second)
				require.Empty(t, b.ledger(j))
			}
			b.resume(j)
			end := b.plan(20 * time.Second).Now.Add(20 * time.Second)
			require.Equal(
				t, grid(time.Second, j.CreatedAt.Add(-40*time.Second), end), dueTimes(b.live(j)),
				"each once, and none is lost",
			)
			require.Empty(t, b.ended(j))
		})
	}
}

func TestPauseOfAJobWhoseLastRunIsPlanned(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	soon := b.now().Truncate(time.Second).Add(30 * time.Second)
	j := b.create(definition("a", schedule.Spec{At: soon.Format(time.RFC3339)}))
	b.plan(time.Minute)
	require.Equal(t, job.Paused, b.pause(j).Job.State, "its run is still to come")
	require.Empty(t, b.ledger(j))
	c := b.resume(j)
	require.Equal(t, job.Active, c.Job.State)
	require.Equal(t, []time.Time{soon}, dueTimes(b.live(j)))

	b.exec(`DELETE FROM run`)
	require.False(t, b.pause(j).Changed, "there is nothing to pause")
	b.exec(`UPDATE job SET state = 3 /* finished */`)
	require.False(t, b.pause(j).Changed, "there is nothing to pause")
}

// TestAYearOfSeconds: occurrences that are too many to count become a range without a count.
func TestAYearOfSeconds(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", everySecond)
	d.Missed.Paused = job.MissedOnce
	j := b.create(d)
	b.pause(j)
	b.back(j, 365*24*time.Hour)
	b.plan(30 * time.Second)
	c := b.resume(j)
	ended := b.ended(j)
	require.Len(t, ended, 3)
	for i, e := range ended[1:] {
		require.LessOrEqual(t, e.Due.Sub(ended[i].To), time.Second, "one range after the other")
	}
	require.Equal(t, job.FromMissed, b.live(j)[0].Origin)
	require.Equal(t, b.live(j)[0].Due, ended[2].To.Add(time.Second))
	require.Greater(t, c.Missed, int64(500_000))
}

// TestWhatHasStartedIsNoLongerInTheFuture: runs are claimed shortly before they are due.
func TestWhatHasStartedIsNoLongerInTheFuture(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	// A run that has started is at most ten seconds ahead. On a slow machine it is due before the job is resumed, so the
	// test tries more than once.
	var j job.Job
	var c, r job.Change
	var started entry
	var live, ended []entry
	for try := 1; ; try++ {
		require.LessOrEqual(t, try, 50, "too slow to test anything")
		j = b.create(definition(fmt.Sprintf("a%d", try), b.soon(5*time.Second)))
		b.plan(20 * time.Second)
		planned := b.live(j)
		if len(planned) < 3 {
			continue
		}
		started = planned[2]
		b.exec(`UPDATE run SET state = 1, attempt = 1 WHERE job_id = $1 AND due_at = $2`, j.ID, started.Due)
		c = b.pause(j)
		live, ended = b.live(j), b.ended(j)
		r = b.resume(j)
		if b.now().Before(started.Due) {
			break
		}
	}
	require.Equal(t, started.Due, c.Now, "the pause begins after it")
	require.Equal(t, []time.Time{started.Due}, dueTimes(live))
	require.Len(t, ended, 2)
	require.True(t, r.Now.After(c.Now), "changes of a job are in order, whatever the clock says")
	require.Zero(t, r.Missed)
	require.Equal(t, started.Due, b.live(j)[0].Due)
	require.Equal(t, started.Due.Add(time.Second), b.live(j)[1].Due)
	require.Len(t, b.ended(j), 2)
}
