package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func (b *jobs) count(what string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM `+what, args...).Scan(&n))
	return n
}

func TestAJobWhoseEndHasComeIsFinished(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("ends", everyMinute))
	other := b.create(definition("goes on", everyMinute))
	finish := func() int {
		n, err := b.store.FinishJobs(t.Context(), 100)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, finish(), "they have no end")
	b.exec(`UPDATE job SET end_at = now() - interval '1 minute' WHERE id = $1`, j.ID)
	b.cursorBack(j, time.Hour)
	require.Zero(t, finish(), "its cursor has not come to its end: there is more to plan")
	b.cursorBack(j, -time.Hour)
	require.Equal(t, 1, finish())
	require.Equal(t, job.Finished, b.get(j).State)
	require.Equal(t, job.Active, b.get(other).State)
}

// TestAJobIsActiveUntilItsLastRunIsDue: plan writes the last run up to a minute before it is due. Until then the job
// is active for readers and filters, whatever ended it.
func TestAJobIsActiveUntilItsLastRunIsDue(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	soon := b.now().Add(10 * time.Minute).UTC().Truncate(time.Minute)
	daily := soon.Format("FREQ=DAILY;BYHOUR=15;BYMINUTE=4;UNTIL=20060102T150405Z")
	jobs := map[string]job.Job{
		"one-off":       b.create(definition("one-off", schedule.Spec{At: soon.Format(time.RFC3339)})),
		"local time":    b.create(definition("local time", schedule.Spec{At: soon.Format("2006-01-02T15:04:05"), Timezone: "UTC"})),
		"a rule's end":  b.create(definition("a rule's end", schedule.Spec{RRule: daily, Timezone: "UTC"})),
		"never endings": b.create(definition("never endings", everyMinute)),
	}
	plan := func() {
		for more := true; more; {
			more = b.plan(20 * time.Minute).More
		}
	}
	plan()
	b.exec(`WITH late AS (DELETE FROM run WHERE due_at < $1 RETURNING job_id) SELECT FROM late`, soon)
	// A job that joins a cursor which has planned its last occurrence.
	jobs["joins"] = b.create(definition("joins", schedule.Spec{At: soon.Format(time.RFC3339)}))
	list := func(state job.State) (names []string) {
		page, err := b.store.ListJobs(t.Context(), job.ListParams{Namespace: b.namespace, State: state, Limit: 100})
		require.NoError(t, err)
		for i := range page.Jobs {
			names = append(names, page.Jobs[i].Name)
		}
		return names
	}
	finish := func() int {
		n, err := b.store.FinishJobs(t.Context(), 100)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, finish())
	for name, j := range jobs {
		require.Equal(t, job.Active, b.get(j).State, name)
	}
	require.Len(t, list(job.Active), len(jobs))
	require.Empty(t, list(job.Finished))

	// Their last runs have started.
	b.exec(`UPDATE run SET state = 1, attempt = 1, due_at = due_at - interval '1 hour'`)
	b.exec(`UPDATE job SET end_at = end_at - interval '1 hour'`)
	require.Zero(t, b.get(jobs["a rule's end"]).NextDue, "it has had all its runs")
	require.Equal(t, len(jobs)-1, finish())
	require.Equal(t, []string{"never endings"}, list(job.Active))
	require.Len(t, list(job.Finished), len(jobs)-1)
}

func TestAOneOffIsRemovedWhenItWasKeptForLongEnough(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	remove := func() int {
		n, err := b.store.RemoveJobs(t.Context(), 100)
		require.NoError(t, err)
		return n
	}
	now := b.now()
	at := schedule.Spec{At: now.Add(-time.Second).Format(time.RFC3339)}
	j := b.create(definition("once", at))
	failed := b.create(definition("failed", schedule.Spec{At: now.Add(-2 * time.Second).Format(time.RFC3339)}))
	recurring := definition("recurring", everyMinute)
	recurring.Schedule.EndAt = now.Add(time.Minute)
	kept := b.create(recurring)
	b.plan(2 * time.Minute)
	b.exec(`UPDATE job SET end_at = now() WHERE id = $1`, kept.ID)
	_, err := b.store.FinishJobs(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, job.Finished, b.get(kept).State)
	require.Equal(t, job.Finished, b.get(j).State)
	require.Zero(t, remove(), "its time has not come")
	b.exec(`UPDATE job SET finished_at = finished_at - interval '24 hours'`)
	require.Zero(t, remove(), "its run is live")

	b.exec(`
		INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, status, cause)
		SELECT partition, job_id, due_at, seq, now(), 1, 'attempts', '', 0, 'attempts' FROM run WHERE job_id = $1`, failed.ID)
	b.exec(`WITH ended AS (DELETE FROM run RETURNING *)
		INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
		                         status)
		SELECT partition, seq, version, job_id, due_at, run_at, now(), 1, 1, 0, 0 FROM ended`)
	require.Equal(t, 1, remove())
	_, err = b.store.Job(t.Context(), b.namespace, j.ID)
	require.ErrorIs(t, err, job.ErrNotFound)
	require.Zero(t, b.count(`job_version WHERE job_id = $1`, j.ID))
	require.Zero(t, b.count(`cursor WHERE schedule LIKE '%' || $1 || '%'`, at.At[:19]))
	require.Len(t, b.ended(j), 1, "its history stays")
	require.Equal(t, job.Finished, b.get(failed).State, "its dead letter waits for redrive")
	require.Equal(t, job.Finished, b.get(kept).State, "it is no one-off")
	require.Equal(t, 2, b.count(`cursor`))
}

func TestACursorLeavesWithItsLastJob(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	one, two := b.create(definition("one", everyMinute)), b.create(definition("two", everyMinute))
	b.pause(two)
	b.remove(one)
	require.Equal(t, 1, b.count(`cursor`), "a paused job has it still")
	b.update(two, definition("two", everyHour))
	require.Equal(t, 1, b.count(`cursor`), "two has another now")
	b.remove(two)
	require.Zero(t, b.count(`cursor`))
}

// TestNoCursorVanishesUnderAJob: one job of a schedule is deleted while another is created.
func TestNoCursorVanishesUnderAJob(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	const workers, rounds = 6, 25
	specs := []schedule.Spec{everyMinute, everyHour}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				id := idIn(partition)
				d := definition(fmt.Sprintf("%d-%d", w, i), specs[i%2])
				if i%5 == 0 {
					d.Schedule = schedule.Spec{At: "2026-01-01T00:00:00Z"}
				}
				j, err := b.store.CreateJob(
					t.Context(), job.CreateParams{Namespace: b.namespace, ID: id, Definition: d},
				)
				if !noError(t, err) {
					return
				}
				d.Schedule = specs[(i+1)%2]
				_, err = b.store.UpdateJob(t.Context(), job.UpdateParams{
					Namespace: b.namespace, ID: j.ID, Definition: d,
				})
				if !noError(t, err) {
					return
				}
				if i < rounds-1 {
					_, err = b.store.DeleteJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID})
					if !noError(t, err) {
						return
					}
				}
			}
		})
	}
	wg.Wait()
	require.Zero(
		t,
		b.count(`job j WHERE NOT EXISTS (SELECT FROM cursor c WHERE c.partition = j.partition AND c.id = j.cursor_id)`),
	)
	require.Equal(t, workers, b.count(`job`))
	require.Equal(t, 1, b.count(`cursor`))
}

func noError(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func TestOldSkipsAreDropped(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	b.exec(`INSERT INTO cursor_skip (partition, cursor_id, from_due, to_due, count, reason, created_at, namespace_id)
		SELECT 1, g, now(), now(), 1, 'missed', now() - g * interval '1 hour', gen_random_uuid() FROM generate_series(0, 47) g`)
	n, err := b.store.DropSkips(t.Context(), 24*time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	n, err = b.store.DropSkips(t.Context(), 24*time.Hour, 1000)
	require.NoError(t, err)
	require.Equal(t, 14, n)
}

// TestOneOffsBehindDeadLettersAreRemoved: one-offs with dead letters come first in the order of removal and stay. The
// others are removed in batches, and those that have lost their dead letter are found again.
func TestOneOffsBehindDeadLettersAreRemoved(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	for i := range 12 {
		b.create(definition(fmt.Sprintf("once-%02d", i), past))
	}
	b.exec(`INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, status, cause)
		SELECT r.partition, r.job_id, r.due_at, r.seq, now(), 1, 'attempts', '', 0, 'attempts'
		FROM run r JOIN job j ON j.id = r.job_id WHERE j.name < 'once-05'`)
	b.exec(`DELETE FROM run`)
	b.exec(`UPDATE job SET state = 3, finished_at = now() - interval '27 h' + interval '10 s' * right(name, 2)::integer,
		keep_finished_for = '24 h'`)
	pass := func() (removed int) {
		for n := 2; n == 2; removed += n {
			var err error
			n, err = b.store.RemoveJobs(t.Context(), 2)
			require.NoError(t, err)
		}
		return removed
	}
	require.Equal(t, 7, pass())
	require.Equal(t, 5, b.count(`job`))
	b.exec(`DELETE FROM dead_letter WHERE job_id = (SELECT id FROM job WHERE name = 'once-02')`)
	removed := 0
	for range 20 {
		removed += pass()
	}
	require.Equal(t, 1, removed)
	b.exec(`DELETE FROM dead_letter`)
	b.exec(`UPDATE job SET finished_at = now() - interval '24:01'`)
	require.Equal(t, 4, pass(), "what may go since a minute does not wait for the pass over all")
}
