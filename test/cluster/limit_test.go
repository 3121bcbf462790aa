package cluster_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// limited makes a queue with limits, and its jobs part of it.
func (c *cluster) limited(queue string, l job.QueueLimits) func(int, *job.CreateParams) {
	c.t.Helper()
	require.NoError(c.t, c.store.CreateQueue(c.t.Context(), job.QueueParams{Namespace: access.DefaultNamespace, Name: queue, Limits: l, Actor: "test"}))
	return func(_ int, in *job.CreateParams) { in.Definition.Queue = queue }
}

// TestLimitOfAQueue: three nodes, one of them killed again and again, and a queue that is always full: never more of its
// runs at the sink than it has places, but for those whose node was killed; the same for each concurrency key; and none is lost.
func TestLimitOfAQueue(t *testing.T) {
	t.Parallel()
	const places, keys, keyPlaces = 50, 8, 4
	f := form{faults: 6, seconds: 14, jobs: 60}.long()
	c := newCluster(t, setup{nodes: 3, slow: func(r *rand.Rand) time.Duration { return time.Duration(300+r.IntN(900)) * time.Millisecond }})
	keyOf := map[string]string{}
	c.create(f.jobs, f.duration(), c.limited("narrow", job.QueueLimits{MaxRunning: places}), func(i int, in *job.CreateParams) {
		in.Definition.Timeout = job.Duration(time.Minute)
		if i%2 == 0 {
			in.Definition.Concurrency = job.Concurrency{Key: fmt.Sprintf("key-%d", i%keys), Max: keyPlaces}
		}
	})
	for _, j := range c.jobs {
		keyOf[job.FormatJobID(j.ID)] = j.Concurrency.Key
	}
	every(f.duration(), f.faults, func(int) { c.kill(syscall.SIGKILL) })
	c.settle(4 * time.Minute)
	receipts := c.sink.all()
	all := most(receipts, func(receipt) string { return "all" })["all"]
	byKey := most(receipts, func(x receipt) string { return keyOf[x.job] })
	r := c.check()
	t.Logf("kills=%d, at the sink together=%d of %d, by key %v of %d", c.kills, all, places, byKey, keyPlaces)
	t.Log(r)
	require.LessOrEqual(t, all, places)
	require.GreaterOrEqual(t, all, places*9/10, "it was not full, so this says nothing")
	for i := range keys / 2 {
		require.Equal(t, keyPlaces, byKey[fmt.Sprintf("key-%d", 2*i)])
	}
	var holds int
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT count(*) FROM hold`).Scan(&holds))
	require.Zero(t, holds)
	c.clean(r)
}

// TestRateOfAQueue: the same for a rate of 100 per second: no stretch of a second has more than that and the burst.
func TestRateOfAQueue(t *testing.T) {
	t.Parallel()
	const rate, burst = 100, 20
	f := form{faults: 3, seconds: 8, jobs: 150}.long()
	c := newCluster(t, setup{nodes: 3})
	c.create(f.jobs, f.duration(), c.limited("narrow", job.QueueLimits{Rate: job.Rate{Count: rate, Seconds: 1}, Burst: burst}))
	every(f.duration(), f.faults, func(int) { c.kill(syscall.SIGKILL) })
	c.settle(4 * time.Minute)
	receipts := c.sink.all()
	fullest := window(receipts, time.Second)
	r := c.check()
	t.Logf("kills=%d, %d within the fullest second, %d+%d allowed", c.kills, fullest, rate, burst)
	t.Log(r)
	// A start is counted when it is claimed, by the database's clock; on this machine a request may take some
	// milliseconds more or less from there to the sink.
	require.LessOrEqual(t, fullest, rate+burst+rate/20)
	require.GreaterOrEqual(t, fullest, rate/2)
	c.clean(r)
}

// most is how many deliveries of a kind were at work at once. One whose caller went away counts until then.
func most(receipts []receipt, kind func(receipt) string) map[string]int {
	type edge struct {
		at   time.Time
		step int
		kind string
	}
	var edges []edge
	for _, x := range receipts {
		end := x.answered
		if !x.gone.IsZero() && (end.IsZero() || x.gone.Before(end)) {
			end = x.gone
		}
		edges = append(edges, edge{x.received, 1, kind(x)}, edge{end, -1, kind(x)})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.step, b.step)) })
	now, out := map[string]int{}, map[string]int{}
	for _, e := range edges {
		now[e.kind] += e.step
		out[e.kind] = max(out[e.kind], now[e.kind])
	}
	return out
}

// window is how many deliveries came within the fullest stretch of time.
func window(receipts []receipt, width time.Duration) (fullest int) {
	times := make([]time.Time, len(receipts))
	for i, x := range receipts {
		times[i] = x.received
	}
	slices.SortFunc(times, time.Time.Compare)
	first := 0
	for i, at := range times {
		for at.Sub(times[first]) >= width {
			first++
		}
		fullest = max(fullest, i-first+1)
	}
	return fullest
}

func TestMostAndWindow(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.UnixMilli(int64(1000 + ms)) }
	receipts := []receipt{
		{job: "a", received: at(0), answered: at(100)},
		{job: "a", received: at(50), answered: at(200), gone: at(60)},
		{job: "b", received: at(55), answered: at(57)},
		{job: "a", received: at(60), answered: at(70)},
		{job: "b", received: at(57), answered: at(58)},
	}
	require.Equal(t, map[string]int{"a": 2, "b": 1}, most(receipts, func(x receipt) string { return x.job }))
	require.Equal(t, 5, window(receipts, time.Second))
	require.Equal(t, 4, window(receipts, 11*time.Millisecond))
}
