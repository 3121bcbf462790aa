package pull_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
	"github.com/belfry-dev/belfry/internal/schedule"
)

const (
	patience = time.Minute
	pause    = time.Millisecond // between two questions
)

type bundle struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *pgtest.Store
	bound *clock.Bound
	pull  *pull.Puller
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t), bound: &clock.Bound{}}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	require.NoError(t, b.store.MakeHistory(t.Context(), 1))
	var now time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now))
	b.bound.Set(now)
	b.pull = b.puller(10 * time.Second)
	return b
}

// puller makes another node.
func (b *bundle) puller(ttl time.Duration) *pull.Puller {
	p := pull.New(pull.Options{Store: b.store, Sessions: b.store, Bound: b.bound, TTL: ttl, Log: slog.New(slog.NewTextHandler(b.t.Output(), nil))})
	b.t.Cleanup(p.Stop)
	return p
}

// job makes a job for workers that is due when it is triggered.
func (b *bundle) job(name, handler string, change func(*job.Definition)) uuid.UUID {
	b.t.Helper()
	d := job.Definition{
		Name: name, Queue: "work", Schedule: schedule.Spec{Every: "24h"}, Payload: json.RawMessage(`{"n":1}`),
		Target: job.Target{Kind: job.WorkerKind, Config: json.RawMessage(fmt.Sprintf(`{"handler":%q}`, handler))},
		Policy: job.Policy{Overlap: job.OverlapAllow},
	}
	if change != nil {
		change(&d)
	}
	j, err := b.store.CreateJob(b.t.Context(), job.CreateParams{Namespace: access.DefaultNamespace, Definition: d, Actor: "test"})
	require.NoError(b.t, err)
	return j.ID
}

func (b *bundle) trigger(id uuid.UUID) job.Key {
	b.t.Helper()
	k, err := b.store.TriggerJob(b.t.Context(), job.ChangeParams{Namespace: access.DefaultNamespace, ID: id, Actor: "test"}, nil)
	require.NoError(b.t, err)
	return k
}

func (b *bundle) open() job.SessionPath {
	b.t.Helper()
	s, err := b.pull.Open(b.t.Context(), job.SessionParams{Namespace: access.DefaultNamespace, Queue: "work", Name: "w", Make: true})
	require.NoError(b.t, err)
	return job.SessionPath{Namespace: access.DefaultNamespace, Queue: "work", ID: s.ID}
}

func (b *bundle) claim(at job.SessionPath, most int, wait time.Duration, handlers ...string) []job.Claimed {
	b.t.Helper()
	got, err := b.pull.Claim(b.t.Context(), at, job.PullParams{Handlers: handlers, Max: most, Wait: wait})
	require.NoError(b.t, err)
	return got
}

func (b *bundle) succeed(at job.SessionPath, runs ...job.Claimed) []job.GoneReason {
	b.t.Helper()
	var done []job.Completion
	for _, r := range runs {
		done = append(done, job.Completion{Key: r.Key, Attempt: r.Number, Outcome: job.Outcome{Kind: job.Succeeded}})
	}
	why, err := b.pull.Complete(b.t.Context(), at, done)
	require.NoError(b.t, err)
	return why
}

func (b *bundle) number(query string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), query, args...).Scan(&n))
	return n
}

func TestAWorkerGetsARunAndReportsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "greet", nil)
	s := b.open()
	require.Empty(t, b.claim(s, 5, time.Millisecond, "greet"), "nothing is due")
	key := b.trigger(id)
	got := b.claim(s, 5, patience, "greet")
	require.Len(t, got, 1)
	require.Equal(t, key.Job, got[0].Key.Job)
	require.Equal(t, "greet", got[0].Handler)
	require.Equal(t, "a", got[0].JobName)
	require.JSONEq(t, `{"n":1}`, got[0].Payload)
	require.EqualValues(t, 1, got[0].Number)
	require.Equal(t, []job.GoneReason{""}, b.succeed(s, got...))
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run_history WHERE ended = 1 AND session_id = $1`, s.ID))
	require.Equal(t, []job.GoneReason{job.GoneReported}, b.succeed(s, got...), "sent again")
}

func TestAnUnknownHandlerIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.job("other", "never-heard-of", nil)
	known := b.job("known", "greet", nil)
	for range 10 {
		b.trigger(other)
	}
	b.trigger(known)
	got := b.claim(b.open(), 50, patience, "greet")
	require.Len(t, got, 1)
	require.Equal(t, known, got[0].Key.Job)
	require.Equal(t, 10, b.number(`SELECT count(*) FROM run WHERE state = 0 AND attempt = 0 AND handler = 'never-heard-of'`))
	require.Len(t, b.claim(b.open(), 50, patience, "never-heard-of"), 10)
}

func TestPriorityThenTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	low := b.job("low", "x", nil)
	high := b.job("high", "y", func(d *job.Definition) { d.Priority = 7 })
	first, second := b.trigger(low), b.trigger(low)
	b.trigger(high)
	var got []job.Claimed
	s := b.open()
	for range 3 {
		got = append(got, b.claim(s, 1, patience, "x", "y")...)
	}
	require.Len(t, got, 3)
	require.Equal(t, high, got[0].Key.Job)
	require.True(t, first.DueAt.Equal(got[1].Key.DueAt))
	require.True(t, second.DueAt.Equal(got[2].Key.DueAt))
}

// Nothing is claimed before its time, and what is due soon is claimed on time.
func TestNeverEarly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	s := b.open()
	require.Empty(t, b.claim(s, 1, time.Millisecond, "x"))
	b.trigger(id)
	_, err := b.pool.Exec(t.Context(), `UPDATE run SET run_at = clock_timestamp() + interval '700 ms'`)
	require.NoError(t, err)
	got := b.claim(s, 1, patience, "x")
	require.Len(t, got, 1)
	late := b.number(`SELECT (extract(epoch FROM claimed_at - run_at) * 1000)::int FROM run`)
	require.GreaterOrEqual(t, late, 0)
	t.Logf("claimed %d ms after its time", late)
}

// A stale worker's report changes nothing: its session expired and the run went
// to another.
func TestAnExpiredSessionIsFenced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pull = b.puller(3 * time.Second)
	b.trigger(b.job("a", "x", nil))
	old := b.open()
	first := b.claim(old, 1, patience, "x")
	require.Len(t, first, 1)
	_, err := b.pool.Exec(t.Context(), `UPDATE session SET expires_at = now() WHERE id = $1`, old.ID)
	require.NoError(t, err)
	_, err = b.pull.Heartbeat(t.Context(), old, nil)
	require.ErrorIs(t, err, job.ErrSessionExpired)
	_, found, err := b.store.RescueWorkers(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, found)
	require.Zero(t, b.number(`SELECT count(*) FROM session WHERE id = $1`, old.ID))
	s := b.open()
	second := b.claim(s, 1, patience, "x")
	require.Len(t, second, 1)
	require.EqualValues(t, 2, second[0].Number)
	_, err = b.pull.Complete(t.Context(), old, []job.Completion{{Key: first[0].Key, Attempt: 1, Outcome: job.Outcome{Kind: job.Succeeded}}})
	require.ErrorIs(t, err, job.ErrNotFound, "of a session that is over")
	require.Equal(t, []job.GoneReason{job.GoneLost}, b.succeed(s, first...), "the right session with the old attempt")
	other := b.open()
	require.Equal(t, []job.GoneReason{job.GoneLost}, b.succeed(other, second...), "the right attempt with another session")
	for _, o := range []job.Outcome{{Kind: job.Failed}, {Kind: job.Cancelled}, {Kind: job.Snoozed}, {Kind: job.Succeeded, Result: "1"}} {
		why, err := b.pull.Complete(t.Context(), other, []job.Completion{{Key: second[0].Key, Attempt: 2, Outcome: o}})
		require.NoError(t, err)
		require.Equal(t, []job.GoneReason{job.GoneLost}, why)
	}
	require.Zero(t, b.number(`SELECT count(*) FROM run_history`))
	require.Equal(t, []job.GoneReason{""}, b.succeed(s, second...))
}

// An answer that was lost: the runs that the worker does not know are lost at
// once, and those that it knows go on.
func TestAdopt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	b.trigger(id)
	old := b.open()
	known := b.claim(old, 1, patience, "x")
	b.trigger(id)
	unknown := b.claim(old, 1, patience, "x") // whose answer never came
	require.Len(t, unknown, 1)
	s, err := b.pull.Open(t.Context(), job.SessionParams{
		Namespace: access.DefaultNamespace, Queue: "work", Name: "w", Adopt: old.ID, Runs: []job.Lease{{Key: known[0].Key, Attempt: 1}},
	})
	require.NoError(t, err)
	require.Empty(t, s.Gone)
	_, found, err := b.store.RescueWorkers(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, found)
	now := job.SessionPath{Namespace: access.DefaultNamespace, Queue: "work", ID: s.ID}
	again := b.claim(now, 5, patience, "x")
	require.Len(t, again, 1)
	require.Equal(t, unknown[0].Key.DueAt.UnixMicro(), again[0].Key.DueAt.UnixMicro())
	require.Equal(t, []job.GoneReason{"", ""}, b.succeed(now, known[0], again[0]))
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
	_, err := b.store.CancelRun(t.Context(), job.RunParams{Namespace: access.DefaultNamespace, Key: got[0].Key, Actor: "test"})
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `UPDATE run SET claimed_at = claimed_at - interval '1 hour' WHERE due_at = $1`, got[1].Key.DueAt)
	require.NoError(t, err)
	percent, text := int16(40), "half way"
	gone, err := b.pull.Heartbeat(t.Context(), s, []job.Lease{
		{Key: got[0].Key, Attempt: 1}, {Key: got[1].Key, Attempt: 1}, {Key: got[2].Key, Attempt: 1, Percent: &percent, Progress: &text}, {Key: got[3].Key, Attempt: 7},
	})
	require.NoError(t, err)
	why := map[int64]job.GoneReason{}
	for _, g := range gone {
		why[g.Key.DueAt.UnixMicro()] = g.Why
	}
	require.Equal(t, map[int64]job.GoneReason{
		got[0].Key.DueAt.UnixMicro(): job.GoneCancelled, got[1].Key.DueAt.UnixMicro(): job.GoneTimeout, got[3].Key.DueAt.UnixMicro(): job.GoneLost,
	}, why)
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run WHERE percent = 40 AND progress = 'half way'`))
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run WHERE state = 0 AND attempt = 1 AND attempts::text LIKE '%longer than the timeout%'`), "to be tried again")
}

// Who has a run locked for long does not keep its worker's session from being renewed.
func TestAHeartbeatWaitsForNoRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.trigger(b.job("a", "x", nil))
	s := b.open()
	got := b.claim(s, 1, patience, "x")
	require.Len(t, got, 1)
	b.exec(`UPDATE session SET expires_at = now() + interval '8 s'`)
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
	require.Equal(t, 1, b.number(`SELECT count(*) FROM session WHERE id = $1 AND expires_at > now() + interval '8 s'`, s.ID))
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = b.pull.Heartbeat(t.Context(), s, lease)
	require.NoError(t, err)
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run WHERE percent = 40`))
}

// Two nodes that hand out runs of one job that allows one at a time.
func TestOverlapHoldsForWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("exclusive", "x", func(d *job.Definition) { d.Overlap = job.OverlapQueueAll })
	const runs = 12
	for range runs {
		b.trigger(id)
	}
	require.Equal(t, 1, b.busy(runs, 0))
	require.Equal(t, runs, b.number(`SELECT count(*) FROM run_history WHERE ended = 1`))
}

func assertNil(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func TestSkippedOverlapOfWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("exclusive", "x", func(d *job.Definition) { d.Overlap = job.OverlapSkip })
	b.trigger(id)
	s := b.open()
	require.Len(t, b.claim(s, 5, patience, "x"), 1)
	b.trigger(id)
	require.Empty(t, b.claim(s, 5, 600*time.Millisecond, "x"))
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run_history WHERE ended = 4 AND reason = 'overlap'`))
}

func TestAPausedQueueGivesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	require.NoError(t, b.store.PauseQueue(t.Context(), job.QueueParams{Namespace: access.DefaultNamespace, Name: "work", Actor: "test"}))
	b.trigger(id)
	s := b.open()
	require.Empty(t, b.claim(s, 5, 500*time.Millisecond, "x"))
	require.NoError(t, b.store.ResumeQueue(t.Context(), job.QueueParams{Namespace: access.DefaultNamespace, Name: "work", Actor: "test"}))
	require.Len(t, b.claim(s, 5, patience, "x"), 1)
}

func TestSnoozeAndFailures(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.trigger(b.job("a", "x", func(d *job.Definition) { d.Retry = job.Retry{MaxAttempts: 2, Base: job.Duration(time.Millisecond)} }))
	s := b.open()
	got := b.claim(s, 1, patience, "x")
	report := func(o job.Outcome, attempt int16) {
		why, err := b.pull.Complete(t.Context(), s, []job.Completion{{Key: got[0].Key, Attempt: attempt, Outcome: o}})
		require.NoError(t, err)
		require.Equal(t, []job.GoneReason{""}, why)
	}
	for i := range 3 { // none of them uses up an attempt
		report(job.Outcome{Kind: job.Snoozed, RetryAfter: time.Millisecond}, int16(i+1))
		got = b.claim(s, 1, patience, "x")
		require.EqualValues(t, i+2, got[0].Number)
	}
	report(job.Outcome{Kind: job.Failed, Retryable: true, Message: "no"}, 4)
	require.Zero(t, b.number(`SELECT count(*) FROM dead_letter`), "it was the first of two")
	got = b.claim(s, 1, patience, "x")
	report(job.Outcome{Kind: job.Failed, Retryable: true, Message: "no"}, 5)
	require.Equal(t, 1, b.number(`SELECT count(*) FROM dead_letter WHERE reason = 'attempts'`))
}

func TestAResultIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.trigger(b.job("a", "x", nil))
	s := b.open()
	got := b.claim(s, 1, patience, "x")
	why, err := b.pull.Complete(t.Context(), s, []job.Completion{{Key: got[0].Key, Attempt: 1, Outcome: job.Outcome{Kind: job.Succeeded, Result: `{"rows":7}`}}})
	require.NoError(t, err)
	require.Equal(t, []job.GoneReason{""}, why)
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run_history WHERE result = '{"rows":7}'`))
}

// A job that is given to workers is no longer delivered by nodes, and the other
// way around.
func TestAJobMovesToWorkersAndBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	key := b.trigger(id)
	update := func(target job.Target) { b.aim(id, target) }
	all := []int16{key.Partition}
	update(job.Target{Kind: "noop"})
	require.Empty(t, b.claim(b.open(), 1, 300*time.Millisecond, "x"))
	woken, err := b.store.Woken(t.Context(), all, key.DueAt.Add(-time.Minute), key.DueAt.Add(time.Minute))
	require.NoError(t, err)
	require.Len(t, woken, 1)
	update(job.Target{Kind: job.WorkerKind, Config: json.RawMessage(`{"handler":"y"}`)})
	pending, err := b.store.Pending(t.Context(), all, key.DueAt.Add(time.Minute))
	require.NoError(t, err)
	require.Empty(t, pending)
	require.Len(t, b.claim(b.open(), 1, patience, "y"), 1)
}

// A run that waited for another of its job goes to who knows its handler by then.
func TestAWaitingRunFollowsItsJobToAnotherHandler(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", func(d *job.Definition) { d.Overlap = job.OverlapQueueAll })
	b.trigger(id)
	b.trigger(id)
	s := b.open()
	first := b.claim(s, 1, patience, "x")
	require.Len(t, first, 1)
	require.Empty(t, b.claim(s, 1, 300*time.Millisecond, "x"))
	b.aim(id, job.Target{Kind: job.WorkerKind, Config: json.RawMessage(`{"handler":"y"}`)})
	b.succeed(s, first...)
	require.Empty(t, b.claim(s, 1, 1500*time.Millisecond, "x"))
	require.Len(t, b.claim(s, 1, patience, "y"), 1)
}

// aim gives a job another target.
func (b *bundle) aim(id uuid.UUID, target job.Target) {
	b.t.Helper()
	j, err := b.store.Job(b.t.Context(), access.DefaultNamespace, id)
	require.NoError(b.t, err)
	j.Target = target
	_, err = b.store.UpdateJob(b.t.Context(), job.UpdateParams{Namespace: access.DefaultNamespace, ID: id, Definition: j.Definition, Actor: "test"})
	require.NoError(b.t, err)
}

// A session of one queue or namespace is none of another's.
func TestASessionIsOfOneQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.open()
	for _, at := range []job.SessionPath{
		{Namespace: s.Namespace, Queue: "other", ID: s.ID}, {Namespace: uuid.New(), Queue: s.Queue, ID: s.ID}, {Namespace: s.Namespace, Queue: s.Queue, ID: uuid.New()},
	} {
		for _, p := range []*pull.Puller{b.pull, b.puller(time.Second)} { // one that knows the session and one that does not
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

// A worker that stands still is dealt nothing, and does not keep runs from others.
func TestWhoIsOverGetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	still := b.open()
	over := make(chan error, 1)
	go func() {
		_, err := b.pull.Claim(context.Background(), still, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: patience})
		over <- err
	}()
	require.Eventually(t, func() bool { return b.pull.Counts().Waiting == 1 }, patience, time.Millisecond)
	_, err := b.pool.Exec(t.Context(), `UPDATE session SET expires_at = now() WHERE id = $1`, still.ID)
	require.NoError(t, err)
	b.trigger(id)
	require.ErrorIs(t, <-over, job.ErrSessionExpired)
	require.Len(t, b.claim(b.open(), 1, patience, "x"), 1)
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run WHERE attempt = 1`))
}

// Nor one that is about to be over, which a decision would still take for live: it
// is told to open another session, and what waited is for that one.
func TestWhoIsAboutToBeOverGetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pull = b.puller(time.Minute)
	id := b.job("a", "x", func(d *job.Definition) { d.Overlap = job.OverlapQueueAll })
	b.trigger(id)
	b.trigger(id)
	first, still := b.open(), b.open()
	live := b.claim(first, 1, patience, "x")
	require.Len(t, live, 1)
	require.Empty(t, b.claim(still, 1, 300*time.Millisecond, "x"), "the other waits for it")
	b.exec(`UPDATE session SET expires_at = now() + interval '900 ms' WHERE id = $1`, still.ID)
	b.succeed(first, live...)
	_, err := b.pull.Claim(t.Context(), still, job.PullParams{Handlers: []string{"x"}, Max: 5, Wait: patience})
	require.ErrorIs(t, err, job.ErrSessionExpired)
	require.Zero(t, b.number(`SELECT count(*) FROM run WHERE session_id = $1`, still.ID), "nothing is leased to it")
	next := b.claim(b.open(), 1, patience, "x")
	require.Len(t, next, 1)
	require.EqualValues(t, 1, next[0].Number)
}

// A worker that goes away while a claim for it is under way loses nothing.
func TestWhoWentAwayGetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.open()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = b.pull.Claim(ctx, s, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: patience})
	}()
	require.Eventually(t, func() bool { return b.pull.Counts().Waiting == 1 }, patience, time.Millisecond)
	cancel()
	<-over
	require.Eventually(t, func() bool { return b.pull.Counts().Waiting == 0 }, patience, time.Millisecond)
	b.trigger(b.job("a", "x", nil))
	require.Len(t, b.claim(b.open(), 1, patience, "x"), 1)
}

// busy claims and reports with some workers on two nodes until all runs have ended, and tells how many were live at once.
func (b *bundle) busy(runs int, hold time.Duration) (most int) {
	b.t.Helper()
	other := b.puller(30 * time.Second)
	var mu sync.Mutex
	live, done := 0, 0
	var wait sync.WaitGroup
	for i := range 6 {
		p := b.pull
		if i%2 == 1 {
			p = other
		}
		s := b.open()
		wait.Go(func() {
			for over := false; !over; {
				got, err := p.Claim(b.t.Context(), s, job.PullParams{Handlers: []string{"x"}, Max: 5, Wait: 300 * time.Millisecond})
				if !assertNil(b.t, err) {
					return
				}
				mu.Lock()
				live += len(got)
				most = max(most, live)
				mu.Unlock()
				if len(got) > 0 {
					<-time.After(hold)
				}
				mu.Lock()
				live -= len(got)
				done += len(got)
				over = done >= runs
				mu.Unlock()
				var reports []job.Completion
				for _, r := range got {
					reports = append(reports, job.Completion{Key: r.Key, Attempt: r.Number, Outcome: job.Outcome{Kind: job.Succeeded}})
				}
				if len(reports) > 0 {
					_, err = p.Complete(b.t.Context(), s, reports)
					assertNil(b.t, err)
				}
			}
		})
	}
	wait.Wait()
	return most
}

func TestLimitOfAQueueHoldsForWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	o := job.QueueParams{Namespace: access.DefaultNamespace, Name: "work", Limits: job.QueueLimits{MaxRunning: 3}, Actor: "test"}
	require.NoError(t, b.store.LimitQueue(t.Context(), o))
	for range 40 {
		b.trigger(id)
	}
	most := b.busy(40, 5*time.Millisecond)
	require.LessOrEqual(t, most, 3)
	require.GreaterOrEqual(t, most, 2)
	require.Equal(t, 40, b.number(`SELECT count(*) FROM run_history WHERE ended = 1`))
	require.Zero(t, b.number(`SELECT count(*) FROM permit`))
}

func TestConcurrencyKeyHoldsForWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keyed := func(d *job.Definition) { d.Concurrency = job.Concurrency{Key: "k", Max: 2} }
	one, two := b.job("a", "x", keyed), b.job("b", "x", keyed)
	free := b.job("free", "x", nil)
	for range 6 {
		b.trigger(one)
		b.trigger(two)
	}
	b.trigger(free)
	s := b.open()
	first := b.claim(s, 50, patience, "x")
	require.Len(t, first, 3, "two of the key, and the one behind them all that has none")
	require.Equal(t, []job.GoneReason{"", "", ""}, b.succeed(s, first...))
	require.LessOrEqual(t, b.busy(10, time.Millisecond), 2)
	require.Equal(t, 13, b.number(`SELECT count(*) FROM run_history WHERE ended = 1`))
}
