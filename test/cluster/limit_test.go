package cluster_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// limited creates a queue with limits, and puts the jobs into it.
func (c *cluster) limited(queue string, l job.QueueLimits) func(int, *job.NewJob) {
	c.t.Helper()
	require.NoError(c.t,
		c.store.CreateQueue(c.t.Context(), job.QueueParams{
			Namespace: access.DefaultNamespace, Name: queue, Limits: l, Actor: "test",
		}))
	return func(_ int, in *job.NewJob) { in.Definition.Queue = queue }
}

// TestLimitOfAQueue: three nodes, of which one is killed repeatedly, and a queue that is always full. The sink never
// has more of its runs in progress than it has permits, except for those whose node was killed. The same holds for each
// concurrency key, and no run is lost.
func TestLimitOfAQueue(t *testing.T) {
	t.Parallel()
	const places, keys, keyPlaces = 50, 8, 4
	f := form{faults: 6, seconds: 14, jobs: 60}.long()
	c := newCluster(t, setup{
		nodes: 3, slow: func(r *rand.Rand) time.Duration { return time.Duration(300+r.IntN(900)) * time.Millisecond },
	})
	keyOf := map[string]string{}
	c.create(f.jobs, f.duration(), c.limited("narrow",
		job.QueueLimits{MaxRunning: places}), func(i int, in *job.NewJob) {
		in.Definition.Timeout = job.Duration(time.Minute)
		if i%2 == 0 {
			in.Definition.Concurrency = job.Concurrency{Key: fmt.Sprintf("key-%d", i%keys), Max: keyPlaces}
		}
	})
	for _, j := range c.jobs {
		keyOf[job.FormatJobID(j.ID)] = j.Concurrency.Key
	}
	every(f.duration(), f.faults, func(int) { c.kill(syscall.SIGKILL) })
	c.finish(4 * time.Minute)
	receipts := c.sink.all()
	all := most(receipts, func(receipt) string { return "all" })["all"]
	byKey := most(receipts, func(x receipt) string { return keyOf[x.job] })
	r := c.check()
	started := c.started()
	full := most(started, func(receipt) string { return "all" })["all"]
	fullByKey := most(started, func(x receipt) string { return keyOf[x.job] })
	t.Logf("kills=%d, at the sink together=%d of %d, by key %v of %d", c.kills, all, places, byKey, keyPlaces)
	t.Logf("started together=%d, by key %v", full, fullByKey)
	t.Log(r)
	require.LessOrEqual(t, all, places)
	require.GreaterOrEqual(t, full, places*9/10, "it was not full, so this says nothing")
	for i := range keys / 2 {
		key := fmt.Sprintf("key-%d", 2*i)
		require.LessOrEqual(t, byKey[key], keyPlaces)
		require.GreaterOrEqual(t, fullByKey[key], keyPlaces, "%s was not full, so this says nothing", key)
	}
	var permits int
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT count(*) FROM permit`).Scan(&permits))
	require.Zero(t, permits)
	c.clean(r)
}

// started lists the last attempt of each run, from its start to its end in the database. Whether a queue was full is
// judged by these times: a busy machine may delay deliveries, and the sink sees fewer of them at the same time. They
// are the times at which transactions began, so a run may seem to start a little before the end of the one whose permit it got.
func (c *cluster) started() []receipt {
	c.t.Helper()
	rows, err := c.pool.Query(c.t.Context(),
		`SELECT job_id, started_at, ended_at FROM run_history WHERE started_at IS NOT NULL`)
	require.NoError(c.t, err)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x receipt, err error) {
		var id uuid.UUID
		err = row.Scan(&id, &x.received, &x.answered)
		x.job = job.FormatJobID(id)
		return x, err
	})
	require.NoError(c.t, err)
	return out
}

// noteStarts records each start in a table of the test, in the transaction of the start. at is the instant at which the
// rate was charged; began and written are before and after it, all by the database clock.
const noteStarts = `
CREATE TABLE noted (began timestamptz, at timestamptz, written timestamptz);
CREATE FUNCTION note_start() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO noted SELECT now(), refilled_at, clock_timestamp() FROM queue_rate WHERE queue_id = NEW.queue_id;
    RETURN NULL;
END $$;
CREATE TRIGGER note_start AFTER UPDATE OF state ON run
    FOR EACH ROW WHEN (NEW.state = 1 AND OLD.state <> 1) EXECUTE FUNCTION note_start()`

// TestRateOfAQueue: three nodes, of which one is killed repeatedly, and a queue with a rate, which is always used. No
// second has more starts than the rate plus the burst. The test uses times of the database, because a busy machine may
// delay a delivery between its start and the sink.
func TestRateOfAQueue(t *testing.T) {
	t.Parallel()
	rate := 25
	if os.Getenv("KILLS") != "" {
		rate = 100
	}
	burst := rate / 5
	f := form{faults: 3, seconds: 8, jobs: 40}.long()
	c := newCluster(t, setup{nodes: 3})
	_, err := c.pool.Exec(t.Context(), noteStarts)
	require.NoError(t, err)
	limits := job.QueueLimits{Rate: job.Rate{Count: int32(rate), Seconds: 1}, Burst: int32(burst)}
	c.create(f.jobs, f.duration(), c.limited("narrow", limits))
	every(f.duration(), f.faults, func(int) { c.kill(syscall.SIGKILL) })
	c.finish(4 * time.Minute)
	rows, err := c.pool.Query(t.Context(), `SELECT at FROM noted`)
	require.NoError(t, err)
	starts, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	require.NoError(t, err)
	var wrong int
	require.NoError(t, c.pool.QueryRow(t.Context(), `
SELECT count(*) FROM noted WHERE at NOT BETWEEN began AND written`).Scan(&wrong))
	fullest, receipts := window(starts, time.Second), c.sink.all()
	r := c.check()
	t.Logf("kills=%d, %d starts and %d deliveries, %d starts in the fullest second, %d+%d allowed",
		c.kills, len(starts), len(receipts), fullest, rate, burst)
	t.Log(r)
	require.GreaterOrEqual(t, len(starts), len(receipts), "each delivery has a start")
	require.Zero(t, wrong, "a start is charged at the time of its transaction")
	require.LessOrEqual(t, fullest, rate+burst)
	require.GreaterOrEqual(t, fullest, rate/2)
	c.clean(r)
}

// most is how many deliveries of a kind were in progress at the same time. One whose caller went away counts until
// then.
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

// window returns how many of the times are within the fullest window of the given width.
func window(times []time.Time, width time.Duration) (fullest int) {
	times = slices.SortedFunc(slices.Values(times), time.Time.Compare)
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
	var times []time.Time
	for _, x := range receipts {
		times = append(times, x.received)
	}
	require.Equal(t, 5, window(times, time.Second))
	require.Equal(t, 4, window(times, 11*time.Millisecond))
}
