package postgres_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func TestUpdateOfWhatDecidesNoDueTimes(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", everySecond)
	d.Overlap = job.OverlapAllow
	j := b.create(d)
	b.plan(10 * time.Second)
	before := b.live(j)
	d.Name, d.Priority, d.Queue, d.Overlap, d.Target.Kind = "b", 7, "fast", job.OverlapSkip, "http"
	changed := b.update(j, d)
	require.EqualValues(t, 2, changed.Version)
	require.True(t, changed.UpdatedAt.After(j.UpdatedAt))
	require.Equal(t, changed, b.get(j))
	require.Equal(t, before, b.live(j), "its runs stay")
	var n int
	require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT count(*) FROM run r, queue q
WHERE r.job_id = $1 AND r.version = 2 AND r.priority = 7 AND r.admit = 1 /* if alone */
  AND q.id = r.queue_id AND q.name = 'fast'`, j.ID).Scan(&n))
	require.Len(t, before, n, "but what has not started is claimed and delivered by the new definition")
	require.NoError(
		t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM job_version WHERE job_id = $1`, j.ID).Scan(&n),
	)
	require.Equal(t, 2, n)
}

// TestAnEmptyConfigIsNone: it is stored as if it were left out, and so is no change.
func TestAnEmptyConfigIsNone(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", everyHour)
	j := b.create(d)
	for _, config := range []string{`{}`, "{\n }"} {
		d.Target.Config = json.RawMessage(config)
		require.EqualValues(t, 1, b.update(j, d).Version)
	}
	require.Equal(t, 1, b.count(`job_version WHERE job_id = $1`, j.ID))
}

func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("a", everyHour))
	b.create(definition("b", everyHour))
	in := job.UpdateParams{Namespace: b.namespace, ID: j.ID, Definition: definition("c", everyHour), IfVersion: 2}
	_, err := b.store.UpdateJob(t.Context(), in)
	require.ErrorIs(t, err, job.ErrConflict)
	require.ErrorContains(t, err, "the job has version 1")
	in.IfVersion = 1
	_, err = b.store.UpdateJob(t.Context(), in)
	require.NoError(t, err)
	in.IfVersion, in.Definition.Name = 0, "b"
	_, err = b.store.UpdateJob(t.Context(), in)
	require.ErrorIs(t, err, job.ErrConflict)
	in.ID = idIn(partition)
	_, err = b.store.UpdateJob(t.Context(), in)
	require.ErrorIs(t, err, job.ErrNotFound)
	in.ID, in.Namespace = j.ID, idIn(partition)
	_, err = b.store.UpdateJob(t.Context(), in)
	require.ErrorIs(t, err, job.ErrNotFound)
	require.Equal(t, "c", b.get(j).Name)
}

func TestUpdateOfTheSchedule(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("a", everySecond))
	b.create(definition("minutes", everyMinute))
	b.create(definition("seconds", everySecond)) // so that the cursor stays
	end := b.plan(3 * time.Minute).Now.Add(3 * time.Minute)
	late := grid(time.Second, j.CreatedAt.Add(-3*time.Second), j.CreatedAt) // due and not started
	first := b.live(j)[0].Due
	b.exec(`UPDATE run SET due_at = $2 WHERE job_id = $1 AND due_at = $3`, j.ID, late[0], first)

	minutes := b.update(j, definition("a", everyMinute))
	stay := slices.Concat(late[:1], grid(time.Second, first, minutes.UpdatedAt))
	require.Equal(
		t, slices.Concat(stay, grid(time.Minute, minutes.UpdatedAt, end)), dueTimes(b.live(j)),
		"what is due stays, the rest is by the new schedule",
	)
	seconds := b.update(j, definition("a", everySecond))
	stay = append(stay, grid(time.Minute, minutes.UpdatedAt, seconds.UpdatedAt)...)
	require.Equal(t, slices.Concat(stay, grid(time.Second, seconds.UpdatedAt, end)), dueTimes(b.live(j)), "and back")
	hours := b.update(j, definition("a", everyHour))
	stay = append(stay, grid(time.Second, seconds.UpdatedAt, hours.UpdatedAt)...)
	require.Equal(t, stay, dueTimes(b.live(j)), "a cursor of its own has planned nothing")
	require.Empty(t, b.ended(j))
	end = b.plan(2 * time.Hour).Now.Add(2 * time.Hour)
	require.Equal(t, slices.Concat(stay, grid(time.Hour, hours.UpdatedAt, end)), dueTimes(b.live(j)))
}

func TestUpdateOfStartEndAndJitter(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", b.soon(20*time.Second))
	j := b.create(d)
	now := b.plan(time.Minute).Now
	d.Schedule.StartAt, d.Schedule.EndAt = now.Add(30*time.Second), now.Add(40*time.Second)
	require.Equal(t, job.Active, b.update(j, d).State, "until its last run is due")
	want := grid(time.Second, d.Schedule.StartAt, d.Schedule.EndAt)
	require.Equal(t, want, dueTimes(b.live(j)))
	d.Schedule.Jitter = "1h"
	b.update(j, d)
	require.Equal(t, want, dueTimes(b.live(j)))
	require.NotEqual(t, b.live(j)[0].Due, b.live(j)[0].RunAt)
	d.Schedule = everySecond
	changed := b.update(j, d)
	require.Equal(t, job.Active, changed.State, "it has a future again")
	require.Equal(t, grid(time.Second, changed.UpdatedAt, now.Add(time.Minute)), dueTimes(b.live(j)))
	require.Equal(t, 1, b.cursors())
}

func TestUpdateToAOneOffInThePast(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("a", everyHour))
	past := j.CreatedAt.Add(-time.Hour).Truncate(time.Second)
	oneOff := definition("a", schedule.Spec{At: past.Format(time.RFC3339)})
	require.Equal(t, job.Finished, b.update(j, oneOff).State)
	require.Equal(t, []time.Time{past}, dueTimes(b.live(j)), "somebody just asked for it")
	oneOff.Schedule.Jitter = "5s"
	b.update(j, oneOff)
	require.Len(t, b.live(j), 1, "it has been asked for before")

	// Its run ends. Edited away and back, it must not run again.
	b.exec(`
		WITH r AS (DELETE FROM run RETURNING *)
		INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
		                         status, queue_id)
		SELECT partition, seq, version, job_id, due_at, run_at, now(), 1, 1, origin, 0, queue_id FROM r`)
	require.Equal(t, job.Active, b.update(j, definition("a", everyHour)).State)
	require.Equal(t, job.Finished, b.update(j, oneOff).State)
	require.Empty(t, b.live(j))
	require.Len(t, b.ended(j), 1)
}

func TestUpdateWithACursorThatIsBehind(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := definition("a", everySecond)
	d.Missed.Policy = job.MissedAll
	j := b.create(d)
	b.back(j, time.Minute)
	b.cursorBack(j, time.Minute)
	d.Schedule = everyHour
	changed := b.update(j, d)
	want := grid(time.Second, j.CreatedAt.Add(-time.Minute), changed.UpdatedAt)
	require.Equal(t, want, dueTimes(b.live(j)), "what nobody has planned was due all the same")
	d.Schedule = everySecond
	back := b.update(j, d)
	now := b.plan(0).Now
	require.Equal(
		t, append(want, grid(time.Second, back.UpdatedAt, now)...), dueTimes(b.live(j)),
		"and the cursor does not plan it again",
	)
}

func TestUpdateOfAPausedJob(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("a", everySecond))
	b.create(definition("minutes", everyMinute))
	b.pause(j)
	b.plan(3 * time.Minute)
	b.back(j, 20*time.Second)
	changed := b.update(j, definition("a", everyMinute))
	require.Equal(t, job.Paused, changed.State)
	require.Empty(t, b.live(j))
	gone := grid(time.Second, j.CreatedAt.Add(-20*time.Second), changed.UpdatedAt)
	require.Equal(t, []entry{{
		Due: gone[0], To: gone[len(gone)-1], Count: int64(len(gone)), RunAt: gone[0], Ended: job.EndedSkipped,
		Reason: job.ReasonPaused,
	}}, b.ended(j), "by the old schedule until now")
	require.Equal(t, job.Paused, b.get(j).State)
	c := b.resume(j)
	require.EqualValues(t, c.Missed, len(b.ended(j))-1)
}
