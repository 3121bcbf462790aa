package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// counted is a store that counts the statements that waiting costs.
type counted struct {
	*pgtest.Store
	polls, admits atomic.Int64
	hidden        atomic.Bool // most polls find no capacity
}

func (c *counted) ReportWaiters(
	ctx context.Context, session uuid.UUID, limits []job.Limit, waiters []job.WaiterReport,
) (map[job.Limit]*job.Capacity, error) {
	n := c.polls.Add(1)
	found, err := c.Store.ReportWaiters(ctx, session, limits, waiters)
	if c.hidden.Load() && n%20 != 0 {
		for _, capacity := range found {
			capacity.Running = int(capacity.Limits.MaxRunning)
		}
	}
	return found, err
}

func (c *counted) Admit(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Admitted, error) {
	c.admits.Add(1)
	return c.Store.Admit(ctx, session, keys, lead)
}

func (c *counted) AdmitWaiting(ctx context.Context, session uuid.UUID, runs []job.Run) ([]job.Admitted, error) {
	c.admits.Add(1)
	return c.Store.AdmitWaiting(ctx, session, runs)
}

// gated is a target that counts its open calls, and returns when it is released.
type gated struct {
	mu        sync.Mutex
	now, most int
	release   chan struct{}
}

func (g *gated) Deliver(ctx context.Context, _ job.Attempt) job.Outcome {
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	g.mu.Unlock()
	select {
	case <-g.release:
	case <-ctx.Done():
	}
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
	return job.Outcome{Kind: job.Succeeded}
}

func (g *gated) open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

func (b *bundle) limit(t *testing.T, queue string, l job.QueueLimits) {
	t.Helper()
	o := job.QueueParams{Namespace: access.DefaultNamespace, Name: queue, Limits: l, Actor: "test"}
	if err := b.store.CreateQueue(t.Context(), o); !errors.Is(err, job.ErrConflict) {
		require.NoError(t, err)
		return
	}
	require.NoError(t, b.store.LimitQueue(t.Context(), o))
}

func setupLimited(t *testing.T) (*bundle, *gated, *counted) {
	t.Helper()
	b := setup(t)
	g, c := &gated{release: make(chan struct{})}, &counted{Store: b.store}
	b.engine.Targets["gated"] = g
	b.engine.Claimer, b.engine.Queues, b.engine.Limits = c, c, c
	return b, g, c
}

func narrow(d *job.Definition) { d.Target.Kind, d.Queue = "gated", "narrow" }

var longAgo = schedule.Spec{At: "2026-01-01T00:00:00Z"}

// A limited queue never runs more than its limit, and runs by priority. Waiting runs cost a few statements
// per second and no slots, so runs of other queues start in the meantime. Each permit that is freed is used
// immediately, and none is left behind.
func TestALimitedQueue(t *testing.T) {
	t.Parallel()
	const most, waiting = 4, 120 // more than there are slots
	b, g, c := setupLimited(t)
	b.limit(t, "narrow", job.QueueLimits{MaxRunning: most})
	for i := range waiting {
		b.create(t, fmt.Sprintf("limited-%d", i), longAgo, func(d *job.Definition) {
			d.Target.Kind, d.Queue, d.Priority = "gated", "narrow", int16(i%10)
			if i%10 == 3 { // needs a decision too
				d.Deadline = job.Duration(366 * 24 * time.Hour)
			}
		})
	}
	b.start(t)
	require.Eventually(t, func() bool { return g.open() == most }, time.Minute, 5*time.Millisecond)
	before, began := c.polls.Load()+c.admits.Load(), b.bound.Now()
	for i := range 60 {
		b.create(t, fmt.Sprintf("free-%d", i), longAgo, nil)
	}
	b.eventually(t, "others run", `SELECT count(*) FROM run_history`, 60)
	<-time.After(time.Second)
	spent := c.polls.Load() + c.admits.Load() - before
	elapsed := b.bound.Now().Sub(began) + 2*time.Second // for those that were under way
	t.Logf("%d statements in %s", spent, elapsed)
	require.LessOrEqual(t, spent, int64(elapsed/(100*time.Millisecond)), "waiting is cheap")
	require.Equal(t, most, g.open())
	q, err := b.store.Queue(t.Context(), access.DefaultNamespace, "narrow")
	require.NoError(t, err)
	require.EqualValues(t, most, q.Running)
	require.EqualValues(t, waiting-most, q.Waiting)

	// Each end frees a permit immediately: by polls, which free 4 every 5 s now, it would take minutes. There are some,
	// because a claim that is refused at the moment when a run ends may not notice the permit.
	c.hidden.Store(true)
	close(g.release)
	b.eventually(t, "all ran", `SELECT count(*) FROM run_history WHERE ended = 1`, waiting+60)
	b.eventually(t, "no permit is left", `SELECT count(*) FROM permit`, 0)
	require.Equal(t, most, g.most)
	// Except for runs that were taken while the waitlist was being filled, and runs that need a decision.
	b.eventually(t, "by priority", `SELECT count(*) FROM (
		SELECT j.priority, lag(j.priority) OVER w AS before, row_number() OVER w AS n
		FROM run_history h JOIN job j ON j.id = h.job_id
		WHERE j.queue_id IN (SELECT id FROM queue WHERE name = 'narrow') AND j.priority <> 3
		WINDOW w AS (ORDER BY h.started_at, j.priority DESC)) x WHERE n > 4 AND priority > before`, 0)
}

// Jobs that share a concurrency key run one at a time, and other jobs of their queue do not wait.
func TestAConcurrencyKey(t *testing.T) {
	t.Parallel()
	b, g, _ := setupLimited(t)
	for i := range 20 {
		b.create(t, fmt.Sprintf("keyed-%d", i), longAgo, func(d *job.Definition) {
			d.Target.Kind, d.Concurrency.Key, d.Priority = "gated", "customer", 9
		})
		b.create(t, fmt.Sprintf("free-%d", i), longAgo, nil)
	}
	b.start(t)
	b.eventually(t, "others run", `SELECT count(*) FROM run_history`, 20)
	require.Eventually(t, func() bool { return g.open() == 1 }, time.Minute, 5*time.Millisecond)
	close(g.release)
	b.eventually(t, "all ran", `SELECT count(*) FROM run_history WHERE ended = 1`, 40)
	require.Equal(t, 1, g.most)
}

// A rate limits the starts within any period of time.
func TestARate(t *testing.T) {
	t.Parallel()
	b, g, _ := setupLimited(t)
	close(g.release)
	b.limit(t, "narrow", job.QueueLimits{Rate: job.Rate{Count: 50, Seconds: 1}, Burst: 5})
	start := sync.OnceFunc(func() { b.start(t) })
	for try := 1; ; try++ {
		for i := range 60 {
			b.create(t, fmt.Sprintf("limited-%d-%d", try, i), longAgo, narrow)
		}
		start()
		b.eventually(t, "all ran", `SELECT count(*) FROM run_history WHERE ended = 1`, 60*try)
		b.eventually(t, "not too fast", `SELECT coalesce(max(n), 0) FROM (
			SELECT count(*) OVER (ORDER BY started_at RANGE BETWEEN CURRENT ROW AND interval '200 ms' FOLLOWING) AS n
			FROM run_history) x WHERE n > 5 + 10`, 0)
		var took time.Duration
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT max(started_at) - min(started_at)
			FROM (SELECT started_at FROM run_history ORDER BY started_at DESC LIMIT 60) last`).Scan(&took))
		if took < 5*time.Second {
			break
		}
		// The machine may stall, but not in each try.
		require.Less(t, try, 10, "too slow: %s", took)
	}
}

// Running nodes respect a new limit, and start everything when it is removed.
func TestALimitThatIsNew(t *testing.T) {
	t.Parallel()
	b, g, _ := setupLimited(t)
	b.start(t)
	b.limit(t, "narrow", job.QueueLimits{MaxRunning: 2})
	for i := range 10 {
		b.create(t, fmt.Sprintf("limited-%d", i), longAgo, narrow)
	}
	require.Eventually(t, func() bool { return g.open() == 2 }, time.Minute, 5*time.Millisecond)
	b.limit(t, "narrow", job.QueueLimits{MaxRunning: 5})
	require.Eventually(t, func() bool { return g.open() == 5 }, time.Minute, 5*time.Millisecond)
	require.Equal(t, 5, g.most)
	b.limit(t, "narrow", job.QueueLimits{})
	require.Eventually(t, func() bool { return g.open() == 10 }, time.Minute, 5*time.Millisecond)
	close(g.release)
	b.eventually(t, "all ran", `SELECT count(*) FROM run_history WHERE ended = 1`, 10)
}

// Runs that wait for slots of their namespace are no reason for other nodes to wait: the node may have free slots, but
// only for other namespaces.
func TestANodeWithoutASlotForANamespaceReportsNoWaiter(t *testing.T) {
	t.Parallel()
	b, g, _ := setupLimited(t)
	b.engine.Namespaces = b.store
	b.limit(t, "narrow", job.QueueLimits{MaxRunning: 1000})
	create := func(from, to int) {
		for i := from; i < to; i++ {
			b.create(t, fmt.Sprintf("limited-%d", i), longAgo, narrow)
		}
	}
	const first = 10
	create(0, first)
	b.start(t)
	require.Eventually(t, func() bool { return g.open() == first }, time.Minute, 5*time.Millisecond)
	started := clock.Elapsed()
	require.Eventually(t, func() bool { return clock.Elapsed()-started > time.Second }, time.Minute, 50*time.Millisecond,
		"a namespace whose runs are slow may not have all slots")
	create(first, 60) // more than its share of the 50 slots
	b.eventually(t, "no other node waits for them",
		`SELECT count(*) FROM queue_waiter WHERE waiting > 0 AND priority = -1`, 1)
	require.Less(t, g.open(), 50, "all slots are taken, so this test shows nothing")
	close(g.release)
	b.eventually(t, "all ran", `SELECT count(*) FROM run_history WHERE ended = 1`, 60)
}
