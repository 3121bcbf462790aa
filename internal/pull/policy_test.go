package pull_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
)

// Two nodes hand out runs of a job that allows one live run.
func TestOverlapAppliesToWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("exclusive", "x", func(d *job.Definition) { d.Overlap = job.OverlapQueueAll })
	const runs = 12
	for range runs {
		b.trigger(id)
	}
	require.Equal(t, 1, b.executeAll(runs, 0))
	require.Equal(t, runs, b.number(`SELECT count(*) FROM run_history WHERE ended = 1`))
}

func TestSkippedOverlapOfWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("exclusive", "x", func(d *job.Definition) { d.Overlap = job.OverlapSkip })
	b.trigger(id)
	s := b.open()
	require.Len(t, b.claim(s, 5, patience, "x"), 1)
	b.trigger(id)
	b.exec(`UPDATE run SET origin = 0 /* schedule */ WHERE state = 0 /* pending */`)
	end := b.polling(s, 5, "x")
	skipped := `SELECT count(*) FROM run_history WHERE ended = 4 AND reason = 'overlap'`
	require.Eventually(t, func() bool { return b.number(skipped) == 1 }, patience, pause)
	require.Empty(t, end())
}

// TestATriggerWaitsForTheRunOfAWorker: overlap skip is for occurrences.
func TestATriggerWaitsForTheRunOfAWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("exclusive", "x", func(d *job.Definition) { d.Overlap = job.OverlapSkip })
	b.trigger(id)
	s := b.open()
	first := b.claim(s, 5, patience, "x")
	require.Len(t, first, 1)
	second := b.trigger(id)
	require.Empty(t, b.claim(s, 5, 500*time.Millisecond, "x"))
	b.succeed(s, first...)
	next := b.claim(s, 5, patience, "x")
	require.Len(t, next, 1)
	require.Equal(t, second.RunKey(), next[0].Key.RunKey())
}

func TestAPausedQueueGivesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	queue := job.QueueParams{Namespace: access.DefaultNamespace, Name: "work", Actor: "test"}
	require.NoError(t, b.store.PauseQueue(t.Context(), queue))
	b.trigger(id)
	s := b.open()
	require.Empty(t, b.claim(s, 5, 500*time.Millisecond, "x"))
	require.NoError(t, b.store.ResumeQueue(t.Context(), queue))
	require.Len(t, b.claim(s, 5, patience, "x"), 1)
}

func TestTheLimitOfAQueueAppliesToWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	require.NoError(t, b.store.LimitQueue(t.Context(), job.QueueParams{
		Namespace: access.DefaultNamespace, Name: "work", Limits: job.QueueLimits{MaxRunning: 3}, Actor: "test",
	}))
	for range 40 {
		b.trigger(id)
	}
	most := b.executeAll(40, 5*time.Millisecond)
	require.LessOrEqual(t, most, 3)
	require.GreaterOrEqual(t, most, 2)
	require.Equal(t, 40, b.number(`SELECT count(*) FROM run_history WHERE ended = 1`))
	require.Zero(t, b.number(`SELECT count(*) FROM permit`))
}

func TestConcurrencyKeysApplyToWorkers(t *testing.T) {
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
	require.Len(t, first, 3, "two runs of the key, and the run without a key that is due after all others")
	require.Equal(t, []job.GoneReason{"", "", ""}, b.succeed(s, first...))
	require.LessOrEqual(t, b.executeAll(10, time.Millisecond), 2)
	require.Equal(t, 13, b.number(`SELECT count(*) FROM run_history WHERE ended = 1`))
}

// executeAll executes runs with six workers on two nodes until n have ended. A run takes the given time. It returns
// how many were live at the same time.
func (b *bundle) executeAll(n int, took time.Duration) (most int) {
	b.t.Helper()
	other := b.puller(30 * time.Second)
	e := &executions{n: n, took: took}
	var wait sync.WaitGroup
	for i := range 6 {
		p := b.pull
		if i%2 == 1 {
			p = other
		}
		s := b.open()
		wait.Go(func() {
			for !e.done() && b.executeSome(e, p, s) {
			}
		})
	}
	wait.Wait()
	return e.most
}

// executions counts runs.
type executions struct {
	n    int
	took time.Duration

	mu                sync.Mutex
	live, ended, most int
}

func (e *executions) begin(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live += n
	e.most = max(e.most, e.live)
}

func (e *executions) end(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live -= n
	e.ended += n
}

func (e *executions) done() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended >= e.n
}

// executeSome claims runs and reports them. It returns false after an error.
func (b *bundle) executeSome(e *executions, p *pull.Puller, s job.SessionPath) bool {
	got, err := p.Claim(b.t.Context(), s, job.PullParams{Handlers: []string{"x"}, Max: 5, Wait: 300 * time.Millisecond})
	if !assertNil(b.t, err) {
		return false
	}
	if len(got) == 0 {
		return true
	}
	e.begin(len(got))
	<-time.After(e.took)
	e.end(len(got))
	_, err = p.Complete(b.t.Context(), s, succeeded(got))
	return assertNil(b.t, err)
}

// sightless is a store whose scans find nothing once a claim has begun.
type sightless struct {
	*pgtest.Store
	claims atomic.Int32
}

func (s *sightless) PullClaim(ctx context.Context, o job.PullClaimParams) (job.PullClaimResult, error) {
	s.claims.Add(1)
	return s.Store.PullClaim(ctx, o)
}

func (s *sightless) ScanDue(
	ctx context.Context, feeds []job.Feed, o job.ScanParams,
) (now time.Time, first []time.Time, err error) {
	now, first, err = s.Store.ScanDue(ctx, feeds, o)
	if s.claims.Load() > 0 {
		clear(first)
	}
	return now, first, err
}

// TestSkippedRunsDoNotHoldUpOthers: after an outage there may be thousands of runs whose deadline has passed. A claim that
// skips some of them is followed by the next one. It does not wait for a scan, which skips as many again five times a second.
func TestSkippedRunsDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 5 {
		b.trigger(b.job(fmt.Sprint("late", i), "x", func(d *job.Definition) { d.Deadline = job.Duration(time.Minute) }))
	}
	_, err := b.pool.Exec(t.Context(), `UPDATE run SET due_at = due_at - interval '1 h', run_at = run_at - interval '1 h'`)
	require.NoError(t, err)
	good := b.trigger(b.job("good", "x", nil))
	b.pull.Stop()
	b.pull = pull.New(pull.Options{
		Store: &sightless{Store: b.store}, Sessions: b.store, Bound: b.bound, TTL: time.Minute, Log: b.pull.Log,
	})
	t.Cleanup(b.pull.Stop)
	got := b.claim(b.open(), 1, patience, "x")
	require.Len(t, got, 1)
	require.Equal(t, good.Job, got[0].Key.Job)
	require.Equal(t, 5, b.number(`SELECT count(*) FROM run_history WHERE reason = 'expired'`))
}

// TestAWorkersRunReplacesUnderALimit: it takes the permit of the run that it replaces. It is decided alone, because it must
// not end the other one if it gets none.
func TestAWorkersRunReplacesUnderALimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", func(d *job.Definition) {
		d.Overlap, d.Concurrency = job.OverlapReplace, job.Concurrency{Key: "k", Max: 1}
	})
	b.trigger(id)
	s := b.open()
	first := b.claim(s, 1, patience, "x")
	require.Len(t, first, 1)
	second := b.trigger(id)
	got := b.claim(s, 1, patience, "x")
	require.Len(t, got, 1)
	require.True(t, second.DueAt.Equal(got[0].Key.DueAt))
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run_history WHERE reason = 'replaced'`))
	require.Equal(t, 1, b.number(`SELECT count(*) FROM permit`))
}
