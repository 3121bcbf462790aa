package pull_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
)

// manyBlocked is more runs than a node retries in a second.
const manyBlocked = 400

// A long line of runs waits for a concurrency key. Later runs of another key, and those with a policy to decide, start.
func TestALineDoesNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keyed := func(key string) func(*job.Definition) {
		return func(d *job.Definition) { d.Concurrency = job.Concurrency{Key: key, Max: 1} }
	}
	long, short := b.job("long", "x", keyed("a")), b.job("short", "x", keyed("b"))
	for range manyBlocked {
		b.trigger(long)
	}
	s := b.open()
	require.Len(t, b.claim(s, 1, patience, "x"), 1)
	b.trigger(short)
	b.trigger(short)
	first := b.claim(s, 1, patience, "x")
	require.Len(t, first, 1)
	require.Equal(t, short, first[0].Key.Job)
	b.succeed(s, first...)
	second := b.claim(s, 1, patience, "x")
	require.Len(t, second, 1)
	require.Equal(t, short, second[0].Key.Job)

	queued := b.job("queued", "x", func(d *job.Definition) { d.Overlap = job.OverlapQueueAll })
	b.trigger(queued)
	got := b.claim(s, 1, patience, "x")
	require.Len(t, got, 1)
	require.Equal(t, queued, got[0].Key.Job)
}

// A line is longer than all runs that a poll may take in a while. The runs behind it are found after few claims, because
// those of the line are not tried one by one.
func TestALongLineIsPassedInFewClaims(t *testing.T) {
	t.Parallel()
	const runs = 3000
	b := setup(t)
	keyed := func(key string) func(*job.Definition) {
		return func(d *job.Definition) { d.Concurrency = job.Concurrency{Key: key, Max: 1} }
	}
	long, short := b.job("long", "x", keyed("a")), b.job("short", "x", keyed("b"))
	b.trigger(long)
	const columns = `partition, version, job_id, state, attempt, priority, origin, admit, queue_id, concurrency_key,
		concurrency_max, handler, needs_sweep, seq`
	b.exec(`INSERT INTO run (`+columns+`, due_at, run_at)
		SELECT `+columns+`, due_at - g * interval '1 ms', run_at - g * interval '1 ms'
		FROM run, generate_series(1, $2) g WHERE job_id = $1`, long, runs)
	s := b.open()
	require.Len(t, b.claim(s, 1, patience, "x"), 1)
	b.trigger(short)
	before := b.pull.Counts().Claims
	got := b.claim(s, 1, patience, "x")
	require.Len(t, got, 1)
	require.Equal(t, short, got[0].Key.Job)
	require.Less(t, b.pull.Counts().Claims-before, int64(runs/20))
}

// Each of many jobs has a run that waits for the one before. Runs of other jobs are decided, and start in order of
// priority. When the runs before have ended, all that waited start.
func TestManyLinesDoNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	queued := func(d *job.Definition) { d.Overlap = job.OverlapQueueAll }
	var jobs []uuid.UUID
	for i := range manyBlocked {
		id := b.job(fmt.Sprint("waits-", i), "x", queued)
		jobs = append(jobs, id)
		b.trigger(id)
	}
	s, other := b.open(), b.open()
	var live []job.Claimed
	for len(live) < manyBlocked {
		live = append(live, b.claim(s, manyBlocked, patience, "x")...)
	}
	for _, id := range jobs {
		b.trigger(id)
	}
	for range 3 {
		id := b.job(fmt.Sprint("other-", uuid.New()), "x", queued)
		b.trigger(id)
		got := b.claim(other, 1, patience, "x")
		require.Len(t, got, 1)
		require.Equal(t, id, got[0].Key.Job)
	}
	b.succeed(s, live...)
	for live = nil; len(live) < manyBlocked; {
		live = append(live, b.claim(s, manyBlocked, patience, "x")...)
	}
}

// decisions notes the runs that may not start, each time they are decided.
type decisions struct {
	*pgtest.Store
	mu      sync.Mutex
	refused []job.RunKey
}

func (d *decisions) PullAdmit(
	ctx context.Context, namespace uuid.UUID, queue int32, session uuid.UUID, due job.Due,
) (job.Admitted, error) {
	out, err := d.Store.PullAdmit(ctx, namespace, queue, session, due)
	if !out.Done && err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.refused = append(d.refused, due.RunKey())
	}
	return out, err
}

// count returns how often a decision refused one of the runs.
func (d *decisions) count(of ...job.Key) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range of {
		for _, r := range d.refused {
			if r == k.RunKey() {
				n++
			}
		}
	}
	return n
}

// deciding has the node's decisions noted.
func (b *bundle) deciding() *decisions {
	d := &decisions{Store: b.store}
	b.pull = pull.New(pull.Options{Store: d, Sessions: b.store, Bound: b.bound, TTL: time.Hour})
	b.t.Cleanup(b.pull.Stop)
	return d
}

// Runs of a job wait behind a live one. One of them is a retry, so its run time is the latest, but its due time is the
// oldest. When the live run ends, the retry starts, and no other run is tried before it.
func TestARetryKeepsItsTurnInTheLine(t *testing.T) {
	t.Parallel()
	for _, overlap := range []job.Overlap{job.OverlapSkip, job.OverlapQueueAll} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.deciding()
			id := b.job("lined", "x", func(d *job.Definition) {
				d.Overlap = overlap
				d.Retry = job.Retry{MaxAttempts: 5, Backoff: job.BackoffFixed, Base: job.Duration(time.Minute)}
			})
			var keys []job.Key
			for range 5 {
				keys = append(keys, b.trigger(id))
			}
			s := b.open()
			first := b.claim(s, 1, patience, "x")
			require.Len(t, first, 1)
			require.Equal(t, keys[0].RunKey(), first[0].Key.RunKey())
			b.report(s, first[0], job.Outcome{Kind: job.Failed, Retryable: true})
			second := b.claim(s, 1, patience, "x")
			require.Len(t, second, 1)
			require.Equal(t, keys[1].RunKey(), second[0].Key.RunKey())
			b.exec(`UPDATE run SET run_at = now() WHERE state = 0 /* pending */ AND attempt = 1`)
			end := b.polling(s, 1, "x")
			require.Eventually(t, func() bool { return store.count(keys[0]) > 0 }, patience, pause, "the retry waits in line")
			require.Empty(t, end())
			before := store.count(keys[2:]...)
			b.succeed(s, second...)
			next := b.claim(s, 1, patience, "x")
			require.Len(t, next, 1)
			require.Equal(t, keys[0].RunKey(), next[0].Key.RunKey())
			require.Equal(t, before, store.count(keys[2:]...))
		})
	}
}

// The first run in the line of a concurrency key may not start although the key has a permit: another run of its job is
// live, or its job allows fewer live runs of the key. The run of another job behind it starts.
func TestARunHoldsTheLineOfItsKeyOnlyForAPermit(t *testing.T) {
	t.Parallel()
	keyed := func(overlap job.Overlap, most int32) func(*job.Definition) {
		return func(d *job.Definition) { d.Overlap, d.Concurrency = overlap, job.Concurrency{Key: "k", Max: most} }
	}
	for name, c := range map[string]struct {
		front    func(*job.Definition)
		triggers int
		started  int // of the triggers, before the other run
	}{
		"live":    {keyed(job.OverlapSkip, 2), 20, 1},
		"maximum": {keyed(job.OverlapAllow, 1), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.deciding()
			holder, front := b.job("holder", "x", keyed(job.OverlapAllow, 2)), b.job("front", "x", c.front)
			other := b.job("other", "x", keyed(job.OverlapSkip, 2))
			b.trigger(holder)
			b.trigger(holder)
			s := b.open()
			var live []job.Claimed
			for len(live) < 2 {
				live = append(live, b.claim(s, 2, patience, "x")...)
			}
			var first []job.Key
			for range c.triggers {
				first = append(first, b.trigger(front))
			}
			last := b.trigger(other)
			end := b.polling(s, 50, "x")
			require.Eventually(t, func() bool { return store.count(first[0]) > 0 }, patience, pause, "they wait in line")
			require.Empty(t, end())
			for i := range c.started {
				b.succeed(s, live[i])
				got := b.claim(s, 1, patience, "x")
				require.Len(t, got, 1)
				require.Equal(t, first[i].RunKey(), got[0].Key.RunKey())
			}
			const seconds = `SELECT extract(epoch FROM clock_timestamp())::bigint`
			before, began := store.count(first...), b.number(seconds)
			b.succeed(s, live[c.started])
			got := b.claim(s, 1, patience, "x")
			require.Len(t, got, 1)
			require.Equal(t, last.RunKey(), got[0].Key.RunKey())
			most := 3 + b.number(seconds) - began // otherwise it would be all of them, each second
			require.LessOrEqual(t, store.count(first...)-before, most, "one each second, until the other run started")
		})
	}
}

// More runs wait than a node retries in a second, each for a run of its own job. The one that was due last starts when it
// may: each line has its turn.
func TestALineThatIsLastHasItsTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.deciding()
	queued := func(d *job.Definition) { d.Overlap = job.OverlapQueueAll }
	jobs := make([]uuid.UUID, 0, manyBlocked+1)
	for i := range manyBlocked + 1 {
		jobs = append(jobs, b.job(fmt.Sprint("waits-", i), "x", queued))
		b.trigger(jobs[i])
	}
	s, other := b.open(), b.open()
	var live []job.Claimed
	for len(live) < len(jobs) {
		live = append(live, b.claim(s, len(jobs), patience, "x")...)
	}
	for _, id := range jobs {
		b.trigger(id)
	}
	end := b.polling(other, 1, "x")
	tried := func() int {
		store.mu.Lock()
		defer store.mu.Unlock()
		return len(store.refused)
	}
	require.Eventually(t, func() bool { return tried() > 2*manyBlocked }, patience, pause, "each has been refused")
	require.Empty(t, end())
	last := slices.IndexFunc(live, func(c job.Claimed) bool { return c.Key.Job == jobs[manyBlocked] })
	_, err := b.puller(time.Hour).Complete(t.Context(), s, succeeded(live[last:last+1]))
	require.NoError(t, err) // of a node that does not show this one
	got := b.claim(other, 1, patience, "x")
	require.Len(t, got, 1)
	require.Equal(t, jobs[manyBlocked], got[0].Key.Job)
}
