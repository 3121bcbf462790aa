package pull_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
)

// The session of a worker has expired, and another worker has its run. What the first one reports changes nothing.
func TestAnExpiredSessionIsFenced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.trigger(b.job("a", "x", nil))
	old := b.open()
	first := b.claim(old, 1, patience, "x")
	require.Len(t, first, 1)
	b.exec(pgtest.ExpireSession, old.ID)
	require.Equal(t, 1, b.rescued())
	_, err := b.pull.Heartbeat(t.Context(), old, nil)
	require.ErrorIs(t, err, job.ErrSessionExpired)
	require.Zero(t, b.number(`SELECT count(*) FROM session WHERE id = $1`, old.ID))
	s := b.open()
	second := b.claim(s, 1, patience, "x")
	require.Len(t, second, 1)
	require.EqualValues(t, 2, second[0].Number)
	_, err = b.pull.Complete(t.Context(), old, succeeded(first))
	require.ErrorIs(t, err, job.ErrNotFound, "the session does not exist any more")
	require.Equal(t, []job.GoneReason{job.GoneLost}, b.succeed(s, first...), "the right session with the old attempt")
	other := b.open()
	require.Equal(t, []job.GoneReason{job.GoneLost}, b.succeed(other, second...), "the attempt of another session")
	for _, o := range []job.Outcome{
		{Kind: job.Failed}, {Kind: job.Cancelled}, {Kind: job.Snoozed}, {Kind: job.Succeeded, Result: "1"},
	} {
		why, err := b.pull.Complete(t.Context(), other, []job.Completion{{Key: second[0].Key, Attempt: 2, Outcome: o}})
		require.NoError(t, err)
		require.Equal(t, []job.GoneReason{job.GoneLost}, why)
	}
	require.Zero(t, b.number(`SELECT count(*) FROM run_history`))
	require.Equal(t, []job.GoneReason{""}, b.succeed(s, second...))
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	for range 4 {
		b.trigger(id)
	}
	s := b.open()
	var got []job.Claimed
	for len(got) < 4 {
		got = append(got, b.claim(s, 4-len(got), patience, "x")...)
	}
	cancelled, timedOut, fine, wrongAttempt := got[0].Key, got[1].Key, got[2].Key, got[3].Key
	cancel := job.RunParams{Namespace: access.DefaultNamespace, Key: cancelled, Actor: "test"}
	_, err := b.store.CancelRun(t.Context(), cancel)
	require.NoError(t, err)
	b.exec(startedAnHourAgo+` WHERE due_at = $1`, timedOut.DueAt)
	percent, text := int16(40), "half way"
	gone, err := b.pull.Heartbeat(t.Context(), s, []job.Lease{
		{Key: cancelled, Attempt: 1},
		{Key: timedOut, Attempt: 1},
		{Key: fine, Attempt: 1, Percent: &percent, Progress: &text},
		{Key: wrongAttempt, Attempt: 7},
	})
	require.NoError(t, err)
	why := map[job.RunKey]job.GoneReason{}
	for _, g := range gone {
		why[g.Key.RunKey()] = g.Why
	}
	require.Equal(t, map[job.RunKey]job.GoneReason{
		cancelled.RunKey(): job.GoneCancelled, timedOut.RunKey(): job.GoneTimeout, wrongAttempt.RunKey(): job.GoneLost,
	}, why)
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run WHERE percent = 40 AND progress = 'half way'`))
	require.Equal(t, 1, b.number(`
		SELECT count(*) FROM run WHERE state = 0 AND attempt = 1 AND attempts::text LIKE '%longer than the timeout%'`),
		"it will be retried")
}

// A transaction that keeps a run locked does not keep its worker's session from being renewed.
func TestAHeartbeatDoesNotWaitForALockedRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.trigger(b.job("a", "x", nil))
	s := b.open()
	got := b.claim(s, 1, patience, "x")
	require.Len(t, got, 1)
	b.exec(`UPDATE session SET expires_at = now() + interval '10 min'`)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM run FOR UPDATE`)
	require.NoError(t, err)
	percent := int16(40)
	lease := []job.Lease{{Key: got[0].Key, Attempt: 1, Percent: &percent}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	gone, err := b.pull.Heartbeat(ctx, s, lease)
	require.NoError(t, err)
	require.Empty(t, gone)
	renewed := `SELECT count(*) FROM session WHERE id = $1 AND expires_at > now() + interval '10 min'`
	require.Equal(t, 1, b.number(renewed, s.ID))
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = b.pull.Heartbeat(t.Context(), s, lease)
	require.NoError(t, err)
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run WHERE percent = 40`))
}

func TestASessionBelongsToOneQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.open()
	for _, at := range []job.SessionPath{
		{Namespace: s.Namespace, Queue: "other", ID: s.ID},
		{Namespace: uuid.New(), Queue: s.Queue, ID: s.ID},
		{Namespace: s.Namespace, Queue: s.Queue, ID: uuid.New()},
	} {
		for _, p := range []*pull.Puller{b.pull, b.puller(time.Second)} { // the second one has not cached the session
			_, err := p.Claim(t.Context(), at, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: time.Millisecond})
			require.ErrorIs(t, err, job.ErrNotFound)
			_, err = p.Heartbeat(t.Context(), at, nil)
			require.ErrorIs(t, err, job.ErrNotFound)
			_, err = p.Complete(t.Context(), at, nil)
			require.ErrorIs(t, err, job.ErrNotFound)
			require.ErrorIs(t, p.End(t.Context(), at), job.ErrNotFound)
		}
	}
}

// A worker whose session expires while it polls gets no run, and does not keep runs from others.
func TestAnExpiredSessionGetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	expired := b.open()
	done := make(chan error, 1)
	go func() {
		_, err := b.pull.Claim(context.Background(), expired, job.PullParams{
			Handlers: []string{"x"}, Max: 1, Wait: patience,
		})
		done <- err
	}()
	b.waiting(1)
	b.exec(pgtest.ExpireSession, expired.ID)
	b.trigger(id)
	require.ErrorIs(t, <-done, job.ErrSessionExpired)
	require.Len(t, b.claim(b.open(), 1, patience, "x"), 1)
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run WHERE attempt = 1`))
}

// A session in its last second gets no run either, although an admission would accept it. Its worker has to open
// another session, and a blocked run goes to that one.
func TestASessionAboutToExpireGetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pull = b.puller(time.Minute)
	id := b.job("a", "x", func(d *job.Definition) { d.Overlap = job.OverlapQueueAll })
	b.trigger(id)
	b.trigger(id)
	first, expiring := b.open(), b.open()
	live := b.claim(first, 1, patience, "x")
	require.Len(t, live, 1)
	require.Empty(t, b.claim(expiring, 1, 300*time.Millisecond, "x"), "the second run waits for the first")
	b.exec(`UPDATE session SET expires_at = now() + interval '900 ms' WHERE id = $1`, expiring.ID)
	b.succeed(first, live...)
	_, err := b.pull.Claim(t.Context(), expiring, job.PullParams{Handlers: []string{"x"}, Max: 5, Wait: patience})
	require.ErrorIs(t, err, job.ErrSessionExpired)
	require.Zero(t, b.number(`SELECT count(*) FROM run WHERE session_id = $1`, expiring.ID), "nothing is leased to it")
	next := b.claim(b.open(), 1, patience, "x")
	require.Len(t, next, 1)
	require.EqualValues(t, 1, next[0].Number)
}

// A change of a job applies to runs that have not started. The attempts that workers have in progress keep the timeout
// that they were claimed with, also when the job is gone.
func TestAttemptsKeepTheirTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := func(d *job.Definition) { d.Timeout = job.Duration(2 * time.Hour) }
	lowered, deleted := b.job("lowered", "x", long), b.job("deleted", "x", long)
	s := b.open()
	var leases []job.Lease
	var partitions []int16
	for _, id := range []uuid.UUID{lowered, deleted} {
		b.trigger(id)
		got := b.claim(s, 1, patience, "x")
		require.Len(t, got, 1)
		leases = append(leases, job.Lease{Key: got[0].Key, Attempt: got[0].Number})
		partitions = append(partitions, got[0].Key.Partition)
	}
	b.exec(startedAnHourAgo)
	b.update(lowered, func(d *job.Definition) { d.Timeout = job.Duration(5 * time.Minute) })
	change := job.ChangeParams{Namespace: access.DefaultNamespace, ID: deleted, Actor: "test"}
	_, err := b.store.DeleteJob(t.Context(), change)
	require.NoError(t, err)

	gone, err := b.pull.Heartbeat(t.Context(), s, leases)
	require.NoError(t, err)
	require.Empty(t, gone)
	_, found, err := b.store.Rescue(t.Context(), partitions, 10)
	require.NoError(t, err)
	require.Zero(t, found)

	b.exec(`UPDATE run SET claimed_at = claimed_at - interval '2 hours'`)
	gone, err = b.pull.Heartbeat(t.Context(), s, leases[:1])
	require.NoError(t, err)
	require.Equal(t, []job.Gone{{Lease: leases[0], Why: job.GoneTimeout}}, gone)
	_, found, err = pgtest.NewStore(b.pool).Rescue(t.Context(), partitions, 10) // of a node that has not searched yet
	require.NoError(t, err)
	require.Equal(t, 1, found)
}
