package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestAReplacementDoesNotWaitForAChangeOfItsJob: a change locks the runs of a job from the oldest on, so the live run
// before the one that replaces it. Admit has the latter, and must not wait for the former.
func TestAReplacementDoesNotWaitForAChangeOfItsJob(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	live := b.due(1, func(_ int, d *job.Definition) { d.Overlap, d.Queue = job.OverlapReplace, "wide" })[0]
	admitted, err := b.store.AdmitOne(t.Context(), b.session, live, time.Second)
	require.NoError(t, err)
	require.NotNil(t, admitted.Claimed)
	replaces, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: live.Job}, nil)
	require.NoError(t, err)
	tx := b.begin()
	const lockRuns = `SELECT FROM run WHERE job_id = $1 AND (state <> 0) = $2 FOR UPDATE NOWAIT`
	_, err = tx.Exec(t.Context(), lockRuns, live.Job, true)
	require.NoError(t, err)
	type result struct {
		job.Admitted
		error
	}
	done := make(chan result, 1)
	go func() {
		out, err := b.store.AdmitOne(t.Context(), b.session, replaces, time.Second)
		done <- result{out, err}
	}()
	b.awaitLocks(1, func() bool { return len(done) > 0 })
	_, err = tx.Exec(t.Context(), lockRuns, live.Job, false)
	require.NoError(t, err, "Admit has the run, and waits for the live one")
	require.Equal(t, result{}, <-done)
	require.NoError(t, tx.Commit(t.Context()))
	admitted, err = b.store.AdmitOne(t.Context(), b.session, replaces, time.Second)
	require.NoError(t, err)
	require.NotNil(t, admitted.Claimed)
	require.Equal(t, 1, b.count(`run_history WHERE reason = 'replaced'`))
}

// TestAdmitDecidesAboutManyJobs: one call decides about runs of different jobs, each by its own policy. A run that
// replaces others and gets no permit ends none of them, and keeps the others from nothing.
func TestAdmitDecidesAboutManyJobs(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("full", job.QueueLimits{MaxRunning: 1})
	with := func(overlap job.Overlap, queue string) func(int, *job.Definition) {
		return func(_ int, d *job.Definition) { d.Overlap, d.Queue = overlap, queue }
	}
	trigger := func(id uuid.UUID) job.Key {
		k, err := b.store.TriggerJob(
			t.Context(), job.ChangeParams{Namespace: b.namespace, ID: id, Actor: "ann"}, nil,
		)
		require.NoError(t, err)
		return k
	}
	behind := func(change func(int, *job.Definition)) (k job.Key) { // a run of a job whose other run is live
		first := b.due(1, change)[0]
		admitted, err := b.store.AdmitOne(t.Context(), b.session, first, time.Second)
		require.NoError(t, err)
		require.NotNil(t, admitted.Claimed)
		return trigger(first.Job)
	}
	starts := b.due(1, with(job.OverlapQueue, "wide"))[0]
	waits := behind(with(job.OverlapQueueAll, "wide"))
	replaces := behind(with(job.OverlapReplace, "wide"))
	expires := b.due(1, func(_ int, d *job.Definition) { d.Queue, d.Deadline = "wide", job.Duration(time.Minute) })[0]
	gone := b.due(1, with(job.OverlapAllow, "wide"))[0]
	b.exec(`DELETE FROM run WHERE job_id = $1`, gone.Job)
	later := b.due(1, with(job.OverlapAllow, "wide"))[0]
	b.exec(`UPDATE run SET run_at = now() + interval '1 h' WHERE job_id = $1`, later.Job)
	refused := behind(with(job.OverlapReplace, "full"))
	// Its live run gets no permit back: that belongs to another job now.
	b.exec(`UPDATE permit SET job_id = gen_random_uuid(), number = number + 1000000`)
	alsoRefused := b.due(1, with(job.OverlapQueue, "full"))[0]

	keys := []job.Key{starts, waits, replaces, expires, gone, later, refused, alsoRefused}
	got, err := b.store.Admit(t.Context(), b.session, keys, time.Second)
	require.NoError(t, err)
	require.Len(t, got, len(keys))
	require.NotNil(t, got[0].Claimed)
	require.Equal(t, starts, got[0].Claimed.Key)
	require.Equal(t, job.Admitted{}, got[1], "it waits")
	require.NotNil(t, got[2].Claimed)
	require.Equal(t, replaces.Job, got[2].Claimed.Key.Job)
	require.Equal(t, job.Admitted{Done: true, Skipped: true}, got[3], "it has expired")
	require.Equal(t, job.Admitted{Done: true}, got[4], "it is gone")
	require.True(t, got[5].Done)
	require.False(t, got[5].RunAt.IsZero(), "it comes later")
	for _, r := range got[6:] {
		require.Nil(t, r.Claimed)
		require.False(t, r.Done)
		require.Equal(t, job.LimitQueue, r.Refusal.Limit.Kind)
	}
	require.Equal(t, 1, b.count(`run WHERE state = 1 AND job_id = '`+refused.Job.String()+`'`), "not ended")
	require.Equal(t, 1, b.count(`run_history WHERE reason = 'replaced'`))
	require.Equal(t, 1, b.count(`run_history WHERE reason = 'expired'`))
	require.Equal(t, 1, b.count(`run WHERE state = 1 AND job_id = '`+replaces.Job.String()+`'`))
}
