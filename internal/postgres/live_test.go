package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// queue creates a queue of the default namespace, or of another one.
func (b *bulk) queue(id int32, name string, namespace uuid.UUID) {
	b.t.Helper()
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3)`, id, namespace, name)
}

// runs creates n pending runs of a queue, each of another job, which may start from a time on.
func (b *bulk) runs(n int, queue int32, at string) {
	b.t.Helper()
	b.exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
			queue_id, needs_sweep)
		SELECT i % 256, 0, 1, gen_random_uuid(), d, d, 0, 0, 0, 0, 0, $2, false
		FROM generate_series(1, $1) i, LATERAL (SELECT now() + $3::interval AS d) x`, n, queue, at)
}

// TestPlannedRunsHideNothing: however many runs are planned for later, and however many wait in a paused queue, a late
// run of another queue is counted, and the planned runs are not read for that.
func TestPlannedRunsHideNothing(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	small := uuid.New()
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'small')`, small)
	b.queue(1, "planned", bulkUUID())
	b.queue(2, "paused", bulkUUID())
	b.queue(3, "small", small)
	b.exec(`UPDATE queue SET paused = true WHERE id = 2`)
	b.exec(`ALTER TABLE run SET (autovacuum_enabled = false)`)
	b.runs(100_100, 2, "-1 min")
	b.runs(1, 1, "-17 min")
	b.runs(1, 3, "-2 h")
	b.runs(2, 3, "59 s") // what is planned for the next minute is counted; none of it may become due during the test
	b.runs(150_000, 1, "59 s")
	first := func(queue int32) (at time.Time) {
		row := b.pool.QueryRow(t.Context(), `SELECT min(run_at) FROM run WHERE queue_id = $1`, queue)
		require.NoError(t, row.Scan(&at))
		return at.UTC()
	}

	var live job.Live
	var err error
	sent := r.during(func() { live, err = b.store.LiveRuns(t.Context()) })
	require.NoError(t, err)
	require.EqualValues(t, 1, live.Queues[1].Late)
	require.EqualValues(t, 1, live.Queues[1].Due)
	require.False(t, live.Queues[1].More)
	require.Equal(t, first(1), live.Queues[1].OldestDue)
	require.EqualValues(t, 1, live.Namespaces[small].Late)
	require.False(t, live.Namespaces[small].More)
	require.GreaterOrEqual(t, live.Queues[2].Late, int64(1000))
	require.True(t, live.Queues[2].More)
	require.Equal(t, first(2), live.Queues[2].OldestDue)

	counts, err := b.store.CountLive(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, counts[1].Due)
	require.False(t, counts[1].More)
	require.True(t, counts[1].PlannedMore)
	require.EqualValues(t, 1, counts[3].Due)
	require.EqualValues(t, 2, counts[3].Planned)
	require.False(t, counts[3].PlannedMore)
	require.True(t, counts[2].More)

	cluster, err := b.store.Cluster(t.Context())
	require.NoError(t, err)
	oldest := b.now()
	for _, o := range cluster.Owners {
		if !o.OldestDueAt.IsZero() && o.OldestDueAt.Before(oldest) {
			oldest = o.OldestDueAt.UTC()
		}
	}
	require.Equal(t, first(3), oldest)

	before := b.now()
	d, err := b.store.Depth(t.Context(), allPartitions(), nil)
	require.NoError(t, err)
	depth := map[int32]postgres.QueueDepth{}
	for _, q := range d.Queues {
		depth[q.ID] = q
	}
	require.EqualValues(t, 1, depth[1].Due)
	after := b.now()
	age := func(queue int32) {
		require.GreaterOrEqual(t, depth[queue].OldestDue, before.Sub(first(queue)).Seconds())
		require.LessOrEqual(t, depth[queue].OldestDue, after.Sub(first(queue)).Seconds())
	}
	age(1)
	require.Zero(t, depth[2].OldestDue, "it is paused")
	age(3)
	if d.Scheduled != nil { // a busy machine may be too slow to count them
		require.EqualValues(t, 150_000, d.Scheduled[0].Count)
	}

	b.exec(`DELETE FROM run WHERE queue_id = 2`)
	b.exec(`VACUUM run`)
	for _, statistics := range []string{"never analysed", "analysed"} {
		require.Less(t, b.blocks(sent[0], sent[1]), 300, statistics)
		b.exec(`ANALYZE run`)
	}
}

// TestDeferredRunsAreLate: a run that was never delivered, because of backpressure, is late since it could have started
// for the first time. A run whose attempt failed is retrying, also if it is deferred later.
func TestDeferredRunsAreLate(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.queue(1, "default", bulkUUID())
	b.shared(3)
	b.pending(1)
	b.exec(`UPDATE run SET due_at = now() - interval '10 min', run_at = now() - interval '10 min'`)
	rest := job.Outcome{Kind: job.Deferred, RetryAfter: time.Hour, Message: "host h rests"}
	fail := job.Outcome{Kind: job.Failed, Retryable: true, RetryAfter: time.Hour, Message: "500"}
	keys := b.keys(3)
	attempt := func(keys []job.Key, outcomes ...job.Outcome) {
		t.Helper()
		done := b.claim(keys)
		for i := range done {
			done[i].Outcome = outcomes[slices.IndexFunc(keys, func(k job.Key) bool { return k.Job == done[i].Key.Job })]
		}
		_, _, err := b.store.CompleteDecided(t.Context(), done)
		require.NoError(t, err)
	}
	attempt(keys, fail, rest, rest)
	attempt(keys, rest, rest, rest)

	live, err := b.store.LiveRuns(t.Context())
	require.NoError(t, err)
	c := live.Queues[1]
	require.EqualValues(t, 2, c.Late)
	require.EqualValues(t, 2, c.Due)
	require.EqualValues(t, 1, c.Retrying)
	require.EqualValues(t, 2, c.Deferred)
	require.Equal(t, "host h rests", c.DeferredReason)
	require.InDelta(t, 600, b.now().Sub(c.OldestDue).Seconds(), 60)
	require.Equal(t, c.OldestDue, c.DeferredFrom)

	for state, want := range map[job.RunStatus]int{job.StatusDue: 2, job.StatusRetrying: 1, job.StatusPending: 0} {
		page, err := b.store.Runs(t.Context(), job.RunQuery{
			Namespace: access.DefaultNamespace, States: []job.RunStatus{state}, Limit: 10,
		})
		require.NoError(t, err)
		require.Len(t, page.Entries, want, state)
		for _, e := range page.Entries {
			require.Equal(t, state, e.Status)
		}
	}
}

// TestLiveRunsAreListedByTheirTime: the oldest first, also if they are of several queues and pages.
func TestLiveRunsAreListedByTheirTime(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	for _, queue := range []int32{1, 2} {
		b.queue(queue, []string{"default", "other"}[queue-1], bulkUUID())
		b.runs(20, queue, "-1 min")
	}
	// Neither the order of partitions nor that of queues.
	b.exec(`UPDATE run SET run_at = run_at - interval '1 s' * (partition * 7 % 41) - interval '500 ms' * queue_id`)
	q := job.RunQuery{Namespace: access.DefaultNamespace, States: []job.RunStatus{job.StatusDue}, Limit: 7}
	var at []time.Time
	for {
		page, err := b.store.Runs(t.Context(), q)
		require.NoError(t, err)
		for _, e := range page.Entries {
			at = append(at, e.RunAt)
		}
		if page.Next == nil {
			break
		}
		q.After = *page.Next
	}
	require.Len(t, at, 40)
	require.True(t, slices.IsSortedFunc(at, time.Time.Compare), "%v", at)
}
