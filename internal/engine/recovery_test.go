package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// asks is a store that counts the transactions that start runs, and how often Admit was asked about each run.
type asks struct {
	*pgtest.Store
	mu             sync.Mutex
	claims, admits int
	claimed        int // runs
	about          map[job.RunKey]int
}

func newAsks(b *bundle) *asks {
	a := &asks{Store: b.store, about: map[job.RunKey]int{}}
	b.engine.Claimer = a
	return a
}

func (a *asks) Claim(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Attempt, error) {
	out, err := a.Store.Claim(ctx, session, keys, lead)
	if len(out) > 0 { // the slower the machine, the more claims are in vain
		a.mu.Lock()
		defer a.mu.Unlock()
		a.claims++
		a.claimed += len(out)
	}
	return out, err
}

func (a *asks) Admit(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Admitted, error) {
	a.mu.Lock()
	a.admits++
	for _, k := range keys {
		a.about[k.RunKey()]++
	}
	a.mu.Unlock()
	return a.Store.Admit(ctx, session, keys, lead)
}

// counts returns how often Admit was asked about each run, and how many transactions of each kind there were.
func (a *asks) counts() (about map[job.RunKey]int, claims, admits int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.about), a.claims, a.admits
}

var nextHour = schedule.Spec{Every: "1h", StartAt: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}

// late gives jobs n late runs each, as they are after an outage.
func (b *bundle) late(t *testing.T, n int) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 needs_sweep)
SELECT partition, 0, version, id, t, t, 0 /* pending */, 0, 0, 0 /* schedule */, admit, queue_id, true
FROM job, generate_series(1, $1::integer) n, LATERAL (SELECT now() - n * interval '1 ms' AS t) x`, n)
	require.NoError(t, err)
}

// TestLateRunsOfManyJobsCostFewTransactions: after an outage many jobs have several late runs, of which each waits for
// the one before it. What decides about them is shared by many.
func TestLateRunsOfManyJobsCostFewTransactions(t *testing.T) {
	t.Parallel()
	for _, overlap := range []job.Overlap{job.OverlapSkip, job.OverlapQueueAll} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			const jobs, late = 40, 25
			b := setup(t)
			a := newAsks(b)
			g := &gated{release: make(chan struct{})}
			b.engine.Targets["gated"] = g
			for i := range jobs {
				b.create(t, fmt.Sprint("job-", i), nextHour, func(d *job.Definition) {
					d.Target.Kind, d.Overlap = "gated", overlap
				})
			}
			b.late(t, late)
			b.start(t)
			require.Eventually(t, func() bool {
				about, _, _ := a.counts()
				return len(about) == jobs*(late-1)
			}, time.Minute, 5*time.Millisecond, "each is asked about while the first of its job runs")
			close(g.release)
			b.eventually(t, "all run", `SELECT count(*) FROM run_history WHERE ended = 1`, jobs*late)
			about, claims, admits := a.counts()
			asked := 0
			for _, n := range about {
				asked += n
			}
			t.Logf("%d claims of %d runs, %d decisions about %d", claims, a.claimed, admits, asked)
			// Without batches it is one run each. The slower the machine, the smaller the batches.
			require.Less(t, claims, a.claimed*4/5)
			require.Less(t, admits, asked*4/5)
		})
	}
}

// TestRunsThatNothingBlocksNeedNoDecision, whatever their policy.
func TestRunsThatNothingBlocksNeedNoDecision(t *testing.T) {
	t.Parallel()
	const jobs = 50
	b := setup(t)
	a := newAsks(b)
	overlaps := []job.Overlap{
		job.OverlapAllow, job.OverlapSkip, job.OverlapQueue, job.OverlapQueueAll, job.OverlapReplace,
	}
	for i := range jobs {
		b.create(t, fmt.Sprint("job-", i), nextHour, func(d *job.Definition) {
			d.Overlap = overlaps[i%len(overlaps)]
			if i%2 == 0 {
				d.Deadline = job.Duration(time.Hour)
			}
		})
	}
	b.late(t, 1)
	b.start(t)
	b.eventually(t, "all run", `SELECT count(*) FROM run_history WHERE ended = 1`, jobs)
	about, _, _ := a.counts()
	require.Empty(t, about)
}

// TestWaitingRunsOfAJobAreAskedAboutOnce: a line of runs behind a long one costs one question a second, however long it
// is. Those of another job with a deadline are asked about again when it has passed.
func TestWaitingRunsOfAJobAreAskedAboutOnce(t *testing.T) {
	t.Parallel()
	const waiting = 100
	b := setup(t)
	a := newAsks(b)
	g := &gated{release: make(chan struct{})}
	b.engine.Targets["gated"] = g
	b.create(t, "line", nextHour, func(d *job.Definition) {
		d.Target.Kind, d.Overlap = "gated", job.OverlapQueueAll
	})
	b.create(t, "hurry", nextHour, func(d *job.Definition) {
		d.Target.Kind, d.Overlap, d.Deadline = "gated", job.OverlapQueueAll, job.Duration(3*time.Second)
	})
	b.late(t, waiting+1)
	b.start(t)
	b.eventually(t, "those that have to hurry expire", `
SELECT count(*) FROM run r JOIN job j ON j.id = job_id WHERE name = 'hurry' AND r.state = 0`, 0)
	require.Eventually(t, func() bool {
		about, _, _ := a.counts()
		return len(about) >= 2*waiting && slices.Max(slices.Collect(maps.Values(about))) >= 5
	}, time.Minute, 20*time.Millisecond)
	about, _, _ := a.counts()
	total, most := 0, 0
	for _, n := range about {
		total, most = total+n, max(most, n)
	}
	t.Logf("asked %d times about %d runs, at most %d times about one", total, len(about), most)
	// Once about each, once more about those that expire, and about the first of each line each second.
	require.LessOrEqual(t, total, 3*waiting+10*most)
	close(g.release)
	b.eventually(t, "all run", `SELECT count(*) FROM run`, 0)
	require.LessOrEqual(t, g.most, 2, "one of each job at a time")
}
