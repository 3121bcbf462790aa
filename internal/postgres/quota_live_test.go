package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/why"
)

// plan plans all jobs for one minute more than before and returns how many runs each has got, by name.
func (b *quotas) plan() map[string]int {
	b.t.Helper()
	b.ahead += time.Minute
	names := map[string]int{}
	for more := true; more; {
		planned, err := b.store.Plan(b.t.Context(), job.PlanParams{Partitions: all(256), LookAhead: b.ahead, Cursors: 500})
		require.NoError(b.t, err)
		for _, r := range planned.Runs {
			names[b.nameOf(r.Job.String())]++
		}
		more = planned.More
	}
	return names
}

func (b *quotas) nameOf(id string) (name string) {
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT name FROM job WHERE id = $1`, id).Scan(&name))
	return name
}

func all(n int) []int16 {
	out := make([]int16, n)
	for i := range out {
		out[i] = int16(i)
	}
	return out
}

// setupFull returns a namespace that has as many live runs as its quota allows, with a job of every second.
func setupFull(t *testing.T) (b *quotas, mine job.Job) {
	t.Helper()
	b = setupQuotas(t)
	mine, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: b.namespace, Definition: definition("mine", everySecond)})
	require.NoError(t, err)
	_, err = b.store.CreateJob(t.Context(), job.CreateParams{Namespace: b.other, Definition: definition("other", everySecond)})
	require.NoError(t, err)
	require.Positive(t, b.plan()["mine"])
	b.set(access.QuotaLiveRuns, b.live("mine"))
	b.countRuns()
	return b, mine
}

func (b *quotas) live(name string) int64 {
	return int64(b.count(`run r JOIN job j ON j.id = r.job_id WHERE j.name = '` + name + `'`))
}

// countRuns counts, however short ago that was done.
func (b *quotas) countRuns() {
	b.exec(`UPDATE namespace_runs SET took = '0 s'`)
	require.NoError(b.t, b.store.CountForQuotas(b.t.Context(), 0))
}

// wait makes the cursors of the namespace be where they were a minute ago, when it was full, and plan visit them.
func (b *quotas) wait() {
	b.exec(`UPDATE job SET plan_from = now() - interval '1 h', created_at = now() - interval '1 h'`)
	b.exec(`UPDATE job_version SET created_at = now() - interval '1 h'`)
	b.exec(`
UPDATE cursor
SET next_due_at = now() - interval '1 min', full_from = now() - interval '1 min', full_until = now() - interval '5 s', retry_at = NULL
WHERE namespace_id = $1`, b.namespace)
}

// fullTime returns until when the cursor of the job was suspended, and how many of its occurrences came due meanwhile.
func (b *quotas) fullTime() (occurrences int, until time.Time) {
	row := b.pool.QueryRow(b.t.Context(), `
SELECT ceil(extract(epoch FROM full_until)) - ceil(extract(epoch FROM full_from)), full_until
FROM cursor WHERE schedule LIKE '%"1s"%' AND namespace_id = $1`, b.namespace)
	require.NoError(b.t, row.Scan(&occurrences, &until))
	return occurrences, until
}

func (b *quotas) firstDue(name string) (at time.Time) {
	const query = `SELECT coalesce(min(r.due_at), 'infinity') FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = $1 AND r.seq = 0`
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), query, name).Scan(&at))
	return at
}

// skipped returns what was skipped because of the quota, in all ranges.
func (b *quotas) skipped() (n int, last *time.Time) {
	row := b.pool.QueryRow(b.t.Context(), `SELECT coalesce(sum(count), 0), max(to_due) FROM cursor_skip WHERE reason = 'live_runs'`)
	require.NoError(b.t, row.Scan(&n, &last))
	return n, last
}

// TestAQuotaOfLiveRuns: while a namespace has as many live runs as its quota allows, it gets no more by schedules. What
// came due meanwhile is skipped and says why, and what comes due later runs. Other namespaces are not affected.
func TestAQuotaOfLiveRuns(t *testing.T) {
	t.Parallel()
	b, mine := setupFull(t)
	live := b.live("mine")
	used, limit := b.use(b.namespace, access.QuotaLiveRuns)
	require.Equal(t, []int64{live, live}, []int64{used, limit})
	used, _ = b.use(b.other, access.QuotaLiveRuns)
	require.EqualValues(t, -1, used, "it is counted only for the quota")
	at := b.now().Add(b.ahead + 30*time.Second)
	once := definition("once", schedule.Spec{At: at.Format(time.RFC3339)})
	_, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: b.namespace, Definition: once})
	require.NoError(t, err)
	full := b.plan()
	require.Positive(t, full["other"])
	require.Equal(t, []int{0, 0}, []int{full["mine"], full["once"]})
	require.Equal(t, 2, b.count(`cursor WHERE retry_at > now() + interval '1 min' AND broken_at IS NULL`))

	const since = `SELECT full_from, full_until FROM cursor WHERE namespace_id = $1 AND schedule LIKE '%"1s"%'`
	var first, again, last *time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), since, b.namespace).Scan(&first, &last))
	require.Zero(t, b.plan()["mine"])
	require.NoError(t, b.pool.QueryRow(t.Context(), since, b.namespace).Scan(&again, &last))
	require.Equal(t, *first, *again, "since the first visit")
	require.True(t, last.After(*first), "until the last one")

	b.wait()
	earlier := `replace(schedule, '` + at.Format(time.RFC3339) + `', '` + b.now().Add(-30*time.Second).Format(time.RFC3339) + `')`
	b.exec(`UPDATE cursor SET schedule = ` + earlier)
	stories, err := b.store.Why(t.Context(), why.Params{
		Namespace: b.namespace, Job: mine.ID, At: b.now().Add(-30 * time.Second).Format(time.RFC3339),
	})
	require.NoError(t, err)
	require.Equal(t, why.Unplanned, stories[0].Code)
	require.Contains(t, stories[0].Text, "as many runs that have not ended as its quota allows")
	b.countRuns()
	require.Zero(t, b.plan()["mine"])
	skips, _ := b.skipped()
	require.Zero(t, skips, "it is not decided yet")

	occurrences, until := b.fullTime()
	b.exec(`DELETE FROM run`)
	b.countRuns()
	b.exec(`UPDATE cursor SET retry_at = NULL`)
	after := b.plan()
	require.Positive(t, after["mine"])
	require.Equal(t, 1, after["once"], "it was delayed")
	require.True(t, b.firstDue("once").Before(until))
	skips, last = b.skipped()
	require.Equal(t, occurrences, skips)
	require.True(t, last.Before(until))
	require.Zero(t, b.count(`cursor WHERE full_from IS NOT NULL OR full_until IS NOT NULL`), "they have passed it")
	require.False(t, b.firstDue("mine").Before(until))
	stories, err = b.store.Why(t.Context(), why.Params{Namespace: b.namespace, Job: mine.ID, At: last.Format(time.RFC3339)})
	require.NoError(t, err)
	require.Equal(t, job.ReasonLiveRuns, stories[0].Reason)
}

// TestABegunDueTimeIsCompleted: the jobs of a cursor get the same, although the namespace is full meanwhile.
func TestABegunDueTimeIsCompleted(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	b.exec(`UPDATE cursor SET after_job = $1, after_origin = 0 WHERE namespace_id = $2`, uuid.Nil, b.namespace)
	require.Equal(t, 1, b.plan()["mine"])
	require.Zero(t, b.plan()["mine"])
}

// TestBrokenAndRestoredCursorsAreNotSuspended: the missed policy decides about the first when it can be planned, and what a
// restore forgot is recorded, because the operator waits for it.
func TestBrokenAndRestoredCursorsAreNotSuspended(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	b.exec(`UPDATE cursor SET broken_at = now() - interval '1 s', retry_at = now() WHERE namespace_id = $1`, b.namespace)
	require.Positive(t, b.plan()["mine"])
	b.exec(`UPDATE cluster SET restored_until = now() + interval '1 h'`)
	b.plan()
	require.Positive(t, b.count(`cursor_skip k JOIN cursor c ON c.id = k.cursor_id
		WHERE k.reason = 'restored' AND c.namespace_id = '`+b.namespace.String()+`'`))
}

// TestOneNodeCounts: a node that finds another one counting does not wait for it.
func TestOneNodeCounts(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	before, _ := b.use(b.namespace, access.QuotaLiveRuns)
	b.exec(`DELETE FROM run`)
	inTx(t, b.pool, "", func(tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtext('belfry live runs'))`)
		require.NoError(t, err)
		b.countRuns()
	})
	during, _ := b.use(b.namespace, access.QuotaLiveRuns)
	b.countRuns()
	after, _ := b.use(b.namespace, access.QuotaLiveRuns)
	require.Equal(t, []int64{before, before, 0}, []int64{before, during, after})
}

// TestAQuotaOfLiveRunsIsRemoved: schedules go on immediately, and what came due before stays skipped.
func TestAQuotaOfLiveRunsIsRemoved(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	require.Zero(t, b.plan()["mine"])
	b.exec(`UPDATE namespace SET max_live_runs = NULL`)
	b.wait()
	require.Positive(t, b.plan()["mine"])
	skips, _ := b.skipped()
	require.Positive(t, skips)
}

// TestPlanPassesAFullTimeInParts: a cursor that was suspended for long is moved by several transactions.
func TestPlanPassesAFullTimeInParts(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	b.exec(`UPDATE namespace SET max_live_runs = NULL`)
	b.exec(`DELETE FROM run`)
	b.wait()
	b.exec(`UPDATE cursor SET next_due_at = next_due_at - interval '30 h', full_from = full_from - interval '30 h'
		WHERE namespace_id = $1`,
		b.namespace)
	occurrences, until := b.fullTime()
	require.Greater(t, occurrences, job.PlanLimit)
	require.Positive(t, b.plan()["mine"])
	require.False(t, b.firstDue("mine").Before(until))
	skips, _ := b.skipped()
	require.Equal(t, occurrences, skips)
	require.Greater(t, b.count(`cursor_skip WHERE reason = 'live_runs'`), 1)
}

// TestAnUpdateInAFullNamespaceAddsNoRuns: what came due by the old schedule is skipped for the job, however much it is.
func TestAnUpdateInAFullNamespaceAddsNoRuns(t *testing.T) {
	t.Parallel()
	for days, ranges := range map[int]int{0: 1, 40: 2} {
		b, mine := setupFull(t)
		b.exec(`DELETE FROM run`)
		b.wait()
		ago := time.Duration(days) * 24 * time.Hour
		b.exec(`UPDATE job SET (plan_from, created_at) = (plan_from - $1::interval, created_at - $1::interval)`, ago)
		b.exec(`UPDATE cursor SET (next_due_at, full_from) = (next_due_at - $1::interval, full_from - $1::interval)`, ago)
		b.updateFull(mine.ID, ranges)
	}
}

func (b *quotas) updateFull(id uuid.UUID, ranges int) {
	t := b.t
	_, until := b.fullTime()
	d := definition("mine", everyHour)
	_, err := b.store.UpdateJob(t.Context(), job.UpdateParams{Namespace: b.namespace, ID: id, Definition: d})
	require.NoError(t, err)
	require.False(t, b.firstDue("mine").Before(until))
	require.Equal(t, ranges, b.count(`run_history WHERE reason = 'live_runs'`), "one of them is not counted")
}

// TestOldCountsOfLiveRunsAreIgnored: nothing is skipped because nodes fail to count, or because the clock was set back.
func TestOldCountsOfLiveRunsAreIgnored(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	for _, age := range []string{"6 min", "-1 h"} {
		b.exec(`UPDATE namespace_runs SET counted_at = now() - $1::interval`, age)
		b.exec(`UPDATE cursor SET retry_at = NULL`)
		require.Positive(t, b.plan()["mine"], age)
		require.NoError(t, b.store.CountForQuotas(t.Context(), time.Minute))
		require.Zero(t, b.plan()["mine"], "counted again after %s", age)
	}
	b.exec(`DELETE FROM run`)
	require.NoError(t, b.store.CountForQuotas(t.Context(), time.Minute))
	used, _ := b.use(b.namespace, access.QuotaLiveRuns)
	require.Positive(t, used, "it was counted within a minute")
	b.exec(`UPDATE namespace_runs SET counted_at = now() - interval '90 s', took = interval '10 s'`)
	require.NoError(t, b.store.CountForQuotas(t.Context(), time.Minute))
	used, _ = b.use(b.namespace, access.QuotaLiveRuns)
	require.Positive(t, used, "counts that take long are less frequent")
	b.exec(`UPDATE namespace_runs SET took = interval '1 s'`)
	require.NoError(t, b.store.CountForQuotas(t.Context(), time.Minute))
	used, _ = b.use(b.namespace, access.QuotaLiveRuns)
	require.Zero(t, used)
}

// TestAResumeInAFullNamespaceAddsNoRuns: with missed.paused all, it would add up to missed.max of them.
func TestAResumeInAFullNamespaceAddsNoRuns(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	for _, name := range []string{"full", "not full"} {
		d := definition(name, everyMinute)
		d.Missed = job.Missed{Paused: job.MissedAll}
		j, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: b.namespace, Definition: d})
		require.NoError(t, err)
		change := job.ChangeParams{Namespace: b.namespace, ID: j.ID}
		_, err = b.store.PauseJob(t.Context(), change, "")
		require.NoError(t, err)
		b.exec(`UPDATE job SET plan_from = now() - interval '20 min' WHERE id = $1`, j.ID)
		if name == "not full" {
			b.exec(`UPDATE namespace SET max_live_runs = NULL`)
		}
		_, err = b.store.ResumeJob(t.Context(), change)
		require.NoError(t, err)
	}
	const caughtUp = `run r JOIN job j ON j.id = r.job_id WHERE r.origin = 3 AND j.name = `
	require.Zero(t, b.count(caughtUp+`'full'`))
	require.Positive(t, b.count(caughtUp+`'not full'`))
}
