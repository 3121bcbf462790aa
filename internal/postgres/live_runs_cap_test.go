package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

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

// setupFull returns a namespace that has as many live runs as it may have, with a job of every second.
func setupFull(t *testing.T) (b *quotas, mine job.Job) {
	t.Helper()
	b = setupQuotas(t)
	mine, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: b.namespace, Definition: definition("mine", everySecond)})
	require.NoError(t, err)
	_, err = b.store.CreateJob(t.Context(), job.CreateParams{Namespace: b.other, Definition: definition("other", everyHour)})
	require.NoError(t, err)
	require.Positive(t, b.plan()["mine"])
	b.countRuns()
	return b, mine
}

// countRuns counts, however short ago that was done. More than 30 runs are the most for a namespace.
func (b *quotas) countRuns() {
	b.exec(`UPDATE namespace_runs SET took = '0 s'`)
	require.NoError(b.t, b.store.CountLiveRuns(b.t.Context(), 0, 30))
}

// full returns the names of the namespaces that are full.
func (b *quotas) full() (names string) {
	const query = `SELECT coalesce(string_agg(n.name, ' '), '') FROM namespace_runs r JOIN namespace n ON n.id = r.namespace_id
		WHERE is_full`
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), query).Scan(&names))
	return names
}

// wait makes the cursors of the namespace be where they were some time ago, and plan visit them.
func (b *quotas) wait(ago time.Duration) {
	for _, table := range []string{"job", "job_version"} {
		b.exec(`UPDATE ` + table + ` SET created_at = now() - interval '30 h'`)
	}
	b.exec(`UPDATE job SET plan_from = now() - interval '30 h'`)
	b.exec(`UPDATE cursor SET next_due_at = date_trunc('second', now() - $2::interval), retry_at = NULL WHERE namespace_id = $1`,
		b.namespace, ago)
}

func (b *quotas) why(j job.Job, at time.Time) why.Story {
	b.t.Helper()
	stories, err := b.store.Why(b.t.Context(), why.Params{Namespace: b.namespace, Job: j.ID, At: at.Format(time.RFC3339)})
	require.NoError(b.t, err)
	return stories[0]
}

const fullText = "the namespace has about 5000000 runs that have not ended, which is the most"

// TestACapOfLiveRuns: while a namespace has as many live runs as it may have, its schedules are not planned. What came due
// meanwhile is missed, says why, and the missed policies decide about it. What comes due later runs. Other namespaces are
// not affected.
func TestACapOfLiveRuns(t *testing.T) {
	t.Parallel()
	b, mine := setupFull(t)
	at := b.now().Add(b.ahead + 30*time.Second)
	for name, policy := range map[string]job.MissedPolicy{"once": job.MissedOnce, "never": job.MissedSkip} {
		d := definition(name, schedule.Spec{At: at.Format(time.RFC3339)})
		d.Missed.Policy = policy
		_, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: b.namespace, Definition: d})
		require.NoError(t, err)
	}
	b.ahead += time.Hour
	require.Equal(t, "mine", b.full())
	full := b.plan()
	require.Equal(t, []int{0, 0, 0}, []int{full["mine"], full["once"], full["never"]})
	require.Positive(t, full["other"])
	require.Equal(t, 3, b.count(`cursor WHERE retry_at > now() + interval '1 min' AND problem LIKE '%`+fullText+`%'`))
	_, problem, err := b.store.BrokenCursors(t.Context(), 10)
	require.NoError(t, err)
	require.Contains(t, problem, fullText, "the operator sees it")

	b.wait(time.Minute)
	b.exec(`UPDATE cursor SET schedule = replace(schedule, $1, $2)`, at.Format(time.RFC3339),
		b.now().Add(-30*time.Second).Format(time.RFC3339))
	require.Zero(t, b.plan()["mine"])
	story := b.why(mine, b.now().Add(-30*time.Second))
	require.Equal(t, why.Unplanned, story.Code)
	require.Contains(t, story.Text, fullText)
	require.Zero(t, b.count(`cursor_skip`), "it is not decided yet")

	b.exec(`DELETE FROM run`)
	b.countRuns()
	require.Empty(t, b.full())
	b.exec(`UPDATE cursor SET retry_at = NULL`)
	b.ahead = 0
	after := b.plan()
	require.Greater(t, after["mine"], 60, "the next minute, and the newest that was missed")
	require.Equal(t, []int{1, 0}, []int{after["once"], after["never"]}, "by their missed policies")
	require.Equal(t, 2, b.count(`run WHERE origin = 3 /* missed */`))
	require.Zero(t, b.count(`cursor WHERE broken_at IS NOT NULL OR retry_at IS NOT NULL OR problem IS NOT NULL`))
	require.Equal(t, 2, b.count(`cursor_skip WHERE reason = 'missed' AND problem LIKE '%`+fullText+`%'`))
	story = b.why(mine, b.now().Add(-40*time.Second))
	require.Equal(t, why.Skipped, story.Code)
	require.Equal(t, job.ReasonMissed, story.Reason)
	require.Contains(t, story.Text, "nodes could not plan its schedule when it was due")
	require.Contains(t, story.Text, fullText)
}

// TestABegunDueTimeIsCompleted: the jobs of a cursor get the same, although the namespace is full meanwhile.
func TestABegunDueTimeIsCompleted(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	b.exec(`UPDATE cursor SET after_job = $1, after_origin = 0 WHERE namespace_id = $2`, uuid.Nil, b.namespace)
	require.Equal(t, 1, b.plan()["mine"])
	require.Zero(t, b.plan()["mine"])
}

// TestWhatARestoreForgotIsRecordedInAFullNamespace: the operator waits for it.
func TestWhatARestoreForgotIsRecordedInAFullNamespace(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	b.exec(`UPDATE cluster SET restored_until = now() + interval '1 h'`)
	b.plan()
	require.Positive(t, b.count(`cursor_skip WHERE reason = 'restored' AND namespace_id = '`+b.namespace.String()+`'`))
}

// TestOneNodeCounts: a node that finds another one counting does not wait for it.
func TestOneNodeCounts(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	b.exec(`DELETE FROM run`)
	inTx(t, b.pool, "", func(tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtext('belfry live runs'))`)
		require.NoError(t, err)
		b.countRuns()
	})
	require.Equal(t, "mine", b.full())
	b.countRuns()
	require.Empty(t, b.full())
}

// TestALongFullTimeIsPassedInParts: a cursor that was not planned for long is moved by several transactions, and all of the
// time was missed.
func TestALongFullTimeIsPassedInParts(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	b.exec(`DELETE FROM run`)
	b.plan()
	b.countRuns()
	b.wait(29 * time.Hour)
	b.ahead = 0
	require.Less(t, b.plan()["mine"], 100, "one that was missed, and the next minute")
	require.Equal(t, 1, b.count(`run WHERE origin = 3 /* missed */`))
	require.Zero(t, b.count(`cursor WHERE broken_at IS NOT NULL OR problem IS NOT NULL`))
	var skipped, ranges int
	row := b.pool.QueryRow(t.Context(), `SELECT sum(count), count(*) FROM cursor_skip WHERE problem IS NOT NULL`)
	require.NoError(t, row.Scan(&skipped, &ranges))
	require.Greater(t, skipped, job.PlanLimit)
	require.Greater(t, ranges, 1)
}

// TestOldCountsOfLiveRunsAreIgnored: schedules go on if nodes fail to count, or if the clock was set back.
func TestOldCountsOfLiveRunsAreIgnored(t *testing.T) {
	t.Parallel()
	b, _ := setupFull(t)
	count := func() { require.NoError(t, b.store.CountLiveRuns(t.Context(), time.Minute, 30)) }
	for _, age := range []string{"6 min", "-1 h"} {
		b.exec(`UPDATE namespace_runs SET counted_at = now() - $1::interval`, age)
		b.exec(`UPDATE cursor SET retry_at = NULL`)
		require.Positive(t, b.plan()["mine"], age)
		count()
		require.Zero(t, b.plan()["mine"], "counted again after %s", age)
	}
	b.exec(`DELETE FROM run`)
	count()
	require.Equal(t, "mine", b.full(), "it was counted within a minute")
	b.exec(`UPDATE namespace_runs SET counted_at = now() - interval '90 s', took = interval '10 s'`)
	count()
	require.Equal(t, "mine", b.full(), "counts that take long are less frequent")
	b.exec(`UPDATE namespace_runs SET took = interval '1 s'`)
	count()
	require.Empty(t, b.full())
}

// TestUsersOfAFullNamespaceAddNoRuns: by a trigger, a backfill, a retry or a resume. A repeated request gets its stored
// response. Other namespaces are not affected.
func TestUsersOfAFullNamespaceAddNoRuns(t *testing.T) {
	t.Parallel()
	b, mine := setupFull(t)
	ctx := t.Context()
	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, job.ErrConflict)
		require.ErrorContains(t, err, fullText+"; wait until some have ended, or cancel those")
	}
	once := func() *job.IdempotentRequest {
		return &job.IdempotentRequest{
			Key: "once", Request: [32]byte{1}, Encode: func(any) ([]byte, error) { return []byte("stored"), nil },
		}
	}
	trigger := func(namespace uuid.UUID, id uuid.UUID, o *job.IdempotentRequest) (job.Key, error) {
		return b.store.TriggerJob(ctx, job.ChangeParams{Namespace: namespace, ID: id, Actor: "test", Idempotent: o}, nil)
	}
	b.exec(`UPDATE namespace_runs SET is_full = false`)
	k, err := trigger(b.namespace, mine.ID, once())
	require.NoError(t, err)
	_, err = b.store.CancelRun(ctx, job.RunParams{Namespace: b.namespace, Key: k, Actor: "test"})
	require.NoError(t, err)
	d := definition("paused", everyMinute)
	d.Missed = job.Missed{Paused: job.MissedAll}
	paused, err := b.store.CreateJob(ctx, job.CreateParams{Namespace: b.namespace, Definition: d})
	require.NoError(t, err)
	change := job.ChangeParams{Namespace: b.namespace, ID: paused.ID}
	_, err = b.store.PauseJob(ctx, change, "")
	require.NoError(t, err)
	b.exec(`UPDATE job SET plan_from = now() - interval '20 min' WHERE id = $1`, paused.ID)
	b.countRuns()

	live := b.count(`run`)
	_, err = trigger(b.namespace, mine.ID, nil)
	refused(err)
	backfill := job.BackfillParams{
		ChangeParams: job.ChangeParams{Namespace: b.namespace, ID: mine.ID, Actor: "test"},
		From:         b.now().Add(-time.Hour), To: b.now(), Max: 1,
	}
	_, err = b.store.BackfillJob(ctx, backfill)
	refused(err)
	backfill.DryRun = true
	_, err = b.store.BackfillJob(ctx, backfill)
	require.NoError(t, err)
	refused(b.store.RetryRun(ctx, job.RunParams{Namespace: b.namespace, Key: k, Actor: "test"}))
	_, err = b.store.ResumeJob(ctx, change)
	refused(err)
	require.Equal(t, live, b.count(`run`))
	repeated := once()
	_, err = trigger(b.namespace, mine.ID, repeated)
	require.ErrorIs(t, err, job.ErrAlreadyDone)
	require.Equal(t, "stored", string(repeated.Response))

	var theirs uuid.UUID
	require.NoError(t, b.pool.QueryRow(ctx, `SELECT id FROM job WHERE name = 'other'`).Scan(&theirs))
	_, err = trigger(b.other, theirs, nil)
	require.NoError(t, err)
	b.exec(`DELETE FROM run`)
	b.countRuns()
	_, err = b.store.ResumeJob(ctx, change)
	require.NoError(t, err)
	require.Positive(t, b.count(`run WHERE origin = 3 /* missed */`))
	require.NoError(t, b.store.RetryRun(ctx, job.RunParams{Namespace: b.namespace, Key: k, Actor: "test"}))
}
