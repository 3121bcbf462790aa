package start_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/start"
)

var eight = time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)

func queueOf(id int64) job.Limit { return job.Limit{Kind: job.LimitQueue, ID: id} }
func keyOf(id int64) job.Limit   { return job.Limit{Kind: job.LimitKey, ID: id} }

func TestPermitsAreGrantedInOrder(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return eight.Add(-time.Duration(minutes) * time.Minute) }
	limits := job.QueueLimits{MaxRunning: 5}
	capacity := map[job.Limit]*job.Capacity{
		queueOf(1): {Locked: true, Running: 2, Limits: limits}, keyOf(7): {Locked: true, Running: 1},
	}
	candidates := []job.Candidate{
		{Queue: 1, Priority: 0, RunAt: at(60)},
		{Queue: 1, Priority: 5, RunAt: at(1)},
		{Queue: 1, Priority: 5, RunAt: at(2)},
		// its key has no capacity, so it takes no permit of the queue
		{Queue: 1, Priority: 9, RunAt: at(0), Key: 7, KeyMax: 1},
		{Queue: 1, Priority: 1, RunAt: at(3), Key: 7, KeyMax: 2},
		{Queue: 2, Priority: 0, RunAt: at(0)}, // a queue without a limit
	}
	got := start.Grant(capacity, candidates, eight)
	require.Equal(t, []job.Refusal{
		{Limit: queueOf(1), Running: 5}, {}, {}, {Limit: keyOf(7), Running: 1, KeyMax: 1}, {}, {},
	}, got)
	require.Equal(t, 5, capacity[queueOf(1)].Running)
	require.Equal(t, 2, capacity[keyOf(7)].Running)

	// Without the lock nothing is granted.
	capacity = map[job.Limit]*job.Capacity{queueOf(1): {Limits: limits}}
	got = start.Grant(capacity, candidates[:1], eight)
	require.Positive(t, got[0].After)
}

func TestRunsThatWaitLongerOnOtherNodesGoFirst(t *testing.T) {
	t.Parallel()
	try := func(mine, other job.Waiter) bool {
		capacity := map[job.Limit]*job.Capacity{queueOf(1): {
			Locked: true, Limits: job.QueueLimits{MaxRunning: 5}, Ahead: &other,
		}}
		got := start.Grant(capacity, []job.Candidate{{Queue: 1, Priority: mine.Priority, RunAt: mine.RunAt}},
			eight)
		return got[0] == job.Refusal{}
	}
	ago := func(d time.Duration) time.Time { return eight.Add(-d) }
	require.True(t, try(job.Waiter{Priority: 5, RunAt: eight}, job.Waiter{Priority: 4, RunAt: ago(time.Hour)}))
	require.False(t, try(job.Waiter{Priority: 4, RunAt: ago(time.Hour)}, job.Waiter{Priority: 5, RunAt: eight}))
	require.True(t, try(job.Waiter{RunAt: eight}, job.Waiter{RunAt: ago(time.Second)}),
		"a second is not worth an unused permit")
	require.False(t, try(job.Waiter{RunAt: eight}, job.Waiter{RunAt: ago(2 * time.Second)}))
	require.True(t, try(job.Waiter{RunAt: ago(80 * time.Minute)}, job.Waiter{RunAt: ago(90 * time.Minute)}),
		"nor is an eighth of a long wait")
	require.False(t, try(job.Waiter{RunAt: ago(80 * time.Minute)}, job.Waiter{RunAt: ago(91 * time.Minute)}))
}

// TestRunsGiveWayOnlyIfPermitsAreScarce: after an outage, runs of all nodes are late, and there are permits for many of
// them. A node that gave way to older runs of another one would leave them unused until that node asks.
func TestRunsGiveWayOnlyIfPermitsAreScarce(t *testing.T) {
	t.Parallel()
	older := job.Waiter{RunAt: eight.Add(-time.Minute)}
	started := func(l job.Limit, c job.Capacity, candidate job.Candidate) (n int) {
		c.Locked, c.Ahead = true, &older
		candidate.Queue, candidate.RunAt = 1, eight
		candidates := slices.Repeat([]job.Candidate{candidate}, 200)
		for _, r := range start.Grant(map[job.Limit]*job.Capacity{l: &c}, candidates, eight) {
			if r == (job.Refusal{}) {
				n++
			}
		}
		return n
	}
	full := job.Bucket{Tokens: 120, At: eight}
	require.Equal(t, 70, started(queueOf(1), job.Capacity{Limits: job.QueueLimits{MaxRunning: 120}}, job.Candidate{}))
	require.Equal(t, 70, started(keyOf(7), job.Capacity{}, job.Candidate{Key: 7, KeyMax: 120}))
	require.Equal(t, 70, started(queueOf(1), job.Capacity{
		Limits: job.QueueLimits{Rate: job.Rate{Count: 120, Seconds: 1}, Burst: 120}, Bucket: full,
	}, job.Candidate{}))
	require.Equal(t, 70, started(queueOf(1), job.Capacity{
		Quota: &job.RunQuota{PerMinute: 120, Bucket: full},
	}, job.Candidate{}))
	require.Equal(t, 200, started(queueOf(1), job.Capacity{Limits: job.QueueLimits{MaxRunning: 500}},
		job.Candidate{Key: 7, KeyMax: 1}), "the maximum of the key is not that of the queue")
	older.Priority = 1
	require.Zero(t, started(queueOf(1), job.Capacity{Limits: job.QueueLimits{MaxRunning: 500}}, job.Candidate{}),
		"priority holds, however many permits are left")
}

// TestARateHoldsInEveryWindow: whatever the pattern of requests, no window has more starts than burst + rate × length.
func TestARateHoldsInEveryWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := job.QueueLimits{
			Rate: job.Rate{Count: 1 + r.Int32N(200), Seconds: []int32{1, 60}[r.IntN(2)]}, Burst: 1 + r.Int32N(20),
		}
		capacity := &job.Capacity{Locked: true, Limits: l}
		// After the clock goes back it passes the same instants again. The bucket counts them once.
		now, latest := eight, time.Time{}
		var starts []time.Time
		for range 300 {
			step := time.Duration(r.Int64N(int64(200 * time.Millisecond)))
			if r.IntN(20) == 0 {
				step = -step // the clock goes back
			}
			now = now.Add(step)
			if now.After(latest) {
				latest = now
			}
			from := make([]job.Candidate, r.IntN(30))
			for i := range from {
				from[i] = job.Candidate{Queue: 1, RunAt: eight}
			}
			for _, refusal := range start.Grant(map[job.Limit]*job.Capacity{queueOf(1): capacity}, from, now) {
				if refusal == (job.Refusal{}) {
					starts = append(starts, latest)
				} else {
					require.Positive(t, refusal.After)
				}
			}
		}
		require.NotEmpty(t, starts)
		perSecond := float64(l.Rate.Count) / float64(l.Rate.Seconds)
		for from := 0; from < len(starts); from += 1 + len(starts)/50 {
			for i, to := range starts[from:] {
				if most := float64(l.Burst) + to.Sub(starts[from]).Seconds()*perSecond; float64(i+1) > most+1e-6 {
					t.Fatalf("seed %d: %d starts, at most %f", seed, i+1, most)
				}
			}
		}
	}
}
