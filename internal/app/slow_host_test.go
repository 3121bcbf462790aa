package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// number is a setting of a long form, from the environment.
func number(name string, short int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return short
}

// receiver notes how late runs reach it.
type receiver struct {
	url  string
	most atomic.Int64 // at once
	now  atomic.Int64

	mu   sync.Mutex
	late []time.Duration
	runs map[string]int
}

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rc := &receiver{runs: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := rc.now.Add(1); n > rc.most.Load() {
			rc.most.Store(n)
		}
		defer rc.now.Add(-1)
		due, err := time.Parse(time.RFC3339Nano, r.Header.Get("Belfry-Due-At"))
		if err != nil {
			t.Error(err)
		}
		rc.mu.Lock()
		rc.late = append(rc.late, clock.Now().Sub(due))
		rc.runs[r.Header.Get("Belfry-Run-Id")]++
		rc.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(srv.Close)
	rc.url = srv.URL
	return rc
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.late)
}

// lateness is p50, p99 and the most, since the last time that it was asked for.
func (r *receiver) lateness() (out [3]time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.late)
	for i, p := range []float64{0.5, 0.99, 1} {
		out[i] = r.late[min(int(p*float64(len(r.late))), len(r.late)-1)].Round(10 * time.Microsecond)
	}
	r.late = nil
	return out
}

// judge compares the lateness of runs next to others with that of the same runs alone. Only the long form does, which a
// setting turns on: in the short form one stall of the machine is more than a hundredth of the runs.
func judge(t *testing.T, alone, beside [3]time.Duration) {
	t.Helper()
	// If others use the machine too, a few milliseconds mean nothing.
	require.Less(t, beside[1], max(alone[1]*3/2, alone[1]+clocktest.Allow(250*time.Millisecond)))
}

// awaitDeferred waits until runs of each crowd are deferred, so the crowds have all slots that they may have.
func (b *bundle) awaitDeferred(t *testing.T, crowds ...string) {
	t.Helper()
	for _, c := range crowds {
		var some bool
		require.Eventually(t, func() bool {
			require.NoError(t, b.pool.QueryRow(context.Background(), `SELECT EXISTS (
    SELECT FROM run r JOIN job j ON j.id = r.job_id WHERE j.name LIKE $1 || '-%' AND r.deferred_reason IS NOT NULL
)`, c).Scan(&some))
			return some
		}, 3*time.Minute, 50*time.Millisecond, c)
	}
}

// hasten makes runs that are deferred due at once: they may be for minutes.
func (b *bundle) hasten(t *testing.T) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), `UPDATE run SET run_at = now() WHERE deferred_reason IS NOT NULL AND state = 0`)
	require.NoError(t, err)
}

// crowd is one-off jobs to one host.
type crowd struct {
	name, url string
	n         int
	timeout   time.Duration
	due       func(i int) time.Time
}

func (b *bundle) many(t *testing.T, c crowd) {
	t.Helper()
	for from := 0; from < c.n; from += 1000 {
		o := job.BulkParams{Namespace: namespace, Actor: "test"}
		for i := from; i < min(c.n, from+1000); i++ {
			o.Jobs = append(o.Jobs, job.NewJob{Definition: job.Definition{
				Name:     fmt.Sprintf("%s-%d", c.name, i),
				Schedule: schedule.Spec{At: c.due(i).UTC().Format("2006-01-02T15:04:05.000Z07:00")},
				Target:   job.Target{Kind: "http", Config: json.RawMessage(`{"url":"` + c.url + `"}`)},
				Policy:   job.Policy{Timeout: job.Duration(c.timeout)},
			}})
		}
		made, err := b.store.CreateJobs(t.Context(), o)
		require.NoError(t, err)
		for _, m := range made {
			require.NoError(t, m.Err)
		}
	}
}

// TestASlowHostBesideAFastOne: many runs to a host that takes its time do not make those to another one late, though
// the node has fewer slots than the slow host could fill; and none of them is lost or sent twice. The short form does
// not measure: the slow host does not answer before all runs to the fast one have arrived.
func TestASlowHostBesideAFastOne(t *testing.T) {
	t.Parallel()
	slowRuns, seconds := number("BELFRY_SLOW_RUNS", 400), number("BELFRY_SLOW_SECONDS", 8)
	slots := number("BELFRY_SLOW_SLOTS", 100)
	takes := time.Duration(number("BELFRY_SLOW_ANSWER_MS", 2000)) * time.Millisecond
	long := os.Getenv("BELFRY_SLOW_RUNS") != ""
	if !long {
		takes = time.Hour
	}
	b := startWith(t, func(c *Config) { c.Slots, c.Drain = slots, 30*time.Second })
	const apart = 20 * time.Millisecond
	fastRuns := seconds * int(time.Second/apart)
	fast := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	done := make(chan struct{})
	slow := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(takes):
		case <-done:
		case <-r.Context().Done():
		}
	})
	answer := sync.OnceFunc(func() { close(done) })
	t.Cleanup(answer) // before the server waits for its requests
	// The slow ones are due over the same time as the fast ones, or at one instant.
	over := time.Duration(number("BELFRY_SLOW_OVER", seconds)) * time.Second
	measure := func(name string, with int) [3]time.Duration {
		begin := clock.Now()
		if long { // nothing is due before all of it is created
			begin = begin.Add(clocktest.Allow(2*time.Second) + time.Duration(with/1000)*time.Second)
		}
		// Each second a crowd, of one schedule.
		b.many(t, crowd{"slow", slow.url, with, 2 * time.Hour, func(i int) time.Time {
			after := time.Duration(i) * over / time.Duration(with)
			return begin.Truncate(time.Second).Add(after.Truncate(time.Second))
		}})
		if !long {
			b.awaitDeferred(t, "slow")
		}
		b.many(t, crowd{name, fast.url, fastRuns, 2 * time.Hour, func(i int) time.Time {
			return begin.Add(time.Duration(i) * apart)
		}})
		require.Eventually(t, func() bool { return fast.count() >= fastRuns },
			time.Duration(seconds)*time.Second+3*time.Minute, 50*time.Millisecond)
		return fast.lateness()
	}
	var alone [3]time.Duration
	if long {
		alone = measure("alone", 0)
	}
	beside := measure("beside", slowRuns)
	var counts struct{ deferred, waiting, ended int }
	require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT (SELECT count(*) FROM run WHERE deferred_reason IS NOT NULL), (SELECT count(*) FROM run WHERE state = 0),
    (SELECT count(*) FROM run_history WHERE ended <> 1)`).Scan(&counts.deferred, &counts.waiting, &counts.ended))
	t.Logf("%d slots; lateness p50, p99, max of %d runs to the fast host: alone %s, "+
		"beside %d runs over %s to a host that takes %s: %s", slots, fastRuns, alone, slowRuns, over, takes, beside)
	t.Logf("the slow host had at most %d at once, %d runs wait for it", slow.most.Load(), counts.waiting)
	require.LessOrEqual(t, slow.most.Load(), int64(slots*2/3+1))
	require.Positive(t, slow.most.Load())
	require.Zero(t, counts.ended, "nothing failed")
	if long { // and it takes too long until all have ended
		judge(t, alone, beside)
	} else {
		answer()
		b.hasten(t)
		require.Eventually(t, func() bool { return slow.count() >= slowRuns }, 3*time.Minute, 50*time.Millisecond)
		b.eventually(t, slowRuns+fastRuns, `SELECT count(*) FROM run_history WHERE ended = 1`)
		for run, times := range slow.runs {
			require.Equal(t, 1, times, run)
		}
		require.Len(t, slow.runs, slowRuns)
	}
}

// TestABreakerShows: runs to a host that is down wait without losing attempts, and
// say so.
func TestABreakerShows(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	n := w.tenant(access.DefaultNamespace)
	var up atomic.Bool
	host := newReceiver(t, func(out http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			out.WriteHeader(http.StatusBadGateway)
		}
	})
	id := w.must(n.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{
		"name":"down","schedule":"every 24h","overlap":"allow","retry":{"max_attempts":1},
		"target":{"kind":"http","config":{"url":%q}}}`, host.url), "id")
	for range 10 {
		w.started(n, id)
	}
	w.eventually(`SELECT count(*) >= 10 FROM dead_letter WHERE message LIKE '502%'`)
	run := w.started(n, id)
	// It stays deferred until the test has seen it, however long that takes.
	w.eventually(`
WITH held AS (
    UPDATE run SET run_at = now() + interval '1 hour' WHERE deferred_reason IS NOT NULL AND state = 0 RETURNING true
)
SELECT count(*) = 1 FROM held`)
	got := w.call(n.key, "GET", "/api/v1/runs/"+run, "")
	require.Contains(t, string(got.body), "is open for 5s")
	require.Contains(t, string(got.body), `"attempts":[]`)
	key, err := job.ParseRunID(run)
	require.NoError(t, err)
	why := w.call(n.key, "GET", "/api/v1/jobs/"+id+"/why?at="+key.DueAt.Format("2006-01-02T15:04:05.000000Z"), "")
	require.Contains(t, string(why.body), `"code":"deferred"`)
	up.Store(true)
	_, err = w.pool.Exec(t.Context(), `UPDATE run SET run_at = now() WHERE job_id = $1`, key.Job)
	require.NoError(t, err)
	w.eventually(`SELECT count(*) = 1 FROM run_history WHERE ended = 1 AND job_id = $1`, key.Job)
	_, metrics := get(t, w.base+"/metrics")
	require.Contains(t, metrics, `belfry_attempts_total{outcome="deferred"}`)
}
