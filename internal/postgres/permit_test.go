package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// limits is a store with a session that owns all partitions, and due runs under limits.
type limits struct {
	*jobs
	session uuid.UUID
}

func setupLimits(t *testing.T) *limits {
	t.Helper()
	b := &limits{jobs: setupJobs(t)}
	b.session, _ = b.store.Own(t)
	return b
}

func (b *limits) limit(queue string, l job.QueueLimits) {
	b.t.Helper()
	b.exec(`INSERT INTO queue (namespace_id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`, b.namespace, queue)
	require.NoError(
		b.t,
		b.store.LimitQueue(
			b.t.Context(), job.QueueParams{Namespace: b.namespace, Name: queue, Limits: l, Actor: "ann"},
		),
	)
}

// due creates jobs with one due run each, and returns the runs.
func (b *limits) due(n int, change func(i int, d *job.Definition)) (keys []job.Key) {
	b.t.Helper()
	for i := range n {
		d := definition(fmt.Sprintf("job-%s", uuid.New()), past)
		d.Queue, d.Retry.MaxAttempts = "narrow", 5
		if change != nil {
			change(i, &d)
		}
		keys = append(keys, b.keyOf(b.create(d)))
	}
	return keys
}

func (b *limits) keyOf(j job.Job) job.Key {
	b.t.Helper()
	k := job.Key{Partition: j.Partition, Job: j.ID}
	require.NoError(
		b.t,
		b.pool.QueryRow(b.t.Context(), `
			SELECT due_at, seq FROM run WHERE job_id = $1
			ORDER BY due_at DESC, seq DESC LIMIT 1`, j.ID).
			Scan(&k.DueAt, &k.Seq),
	)
	return k
}

// refusedRun is a run that a limit refused.
type refusedRun struct {
	Key job.Key
	job.Refusal
}

func (b *limits) claim(keys ...job.Key) (attempts []job.Attempt, refused []refusedRun) {
	b.t.Helper()
	attempts, refused, err := claimWaiting(b.t.Context(), b.pool, b.store, b.session, keys)
	require.NoError(b.t, err)
	b.exact()
	return attempts, refused
}

// admit starts runs as admitters do, and returns those that a limit refused.
func admit(
	ctx context.Context, store *pgtest.Store, session uuid.UUID, keys []job.Key,
) ([]job.Attempt, []refusedRun, error) {
	admitted, err := store.Admit(ctx, session, keys, 0)
	attempts, refused := split(keys, admitted)
	return attempts, refused, err
}

func split(keys []job.Key, admitted []job.Admitted) (attempts []job.Attempt, refused []refusedRun) {
	for i, a := range admitted {
		switch {
		case a.Claimed != nil:
			attempts = append(attempts, a.Claimed.Attempt)
		case a.Refusal != (job.Refusal{}):
			refused = append(refused, refusedRun{keys[i], a.Refusal})
		}
	}
	return attempts, refused
}

func (b *limits) decide(o job.Outcome, attempts ...job.Attempt) {
	b.t.Helper()
	var done []job.Completion
	for _, a := range attempts {
		done = append(done, a.Completion(o))
	}
	var err error
	if o.Kind == job.Succeeded {
		_, err = b.store.CompleteSucceeded(b.t.Context(), done)
	} else {
		_, _, err = b.store.CompleteDecided(b.t.Context(), done)
	}
	require.NoError(b.t, err)
	b.exact()
}

// exact checks that each live run has one permit for its limited queue and one for its key, and that there are no
// others.
func (b *limits) exact() {
	b.t.Helper()
	read := func(sql string) []string {
		rows, err := b.pool.Query(b.t.Context(), sql)
		require.NoError(b.t, err)
		out, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(b.t, err)
		return out
	}
	live := read(
		`
		SELECT format('%s %s %s %s', 1, r.queue_id, r.job_id, r.due_at)
		FROM run r JOIN queue q ON q.id = r.queue_id
		WHERE q.limited AND r.state <> 0 /* live */
		UNION ALL
		SELECT format('%s %s %s %s', 2, concurrency_key, job_id, due_at) FROM run
		WHERE concurrency_key IS NOT NULL AND state <> 0 /* live */
		ORDER BY 1`,
	)
	require.Equal(b.t, live, read(`SELECT format('%s %s %s %s', limit_kind, limit_id, job_id, due_at)
		FROM permit ORDER BY 1`))
}

// pendingNameNone checks that no pending run still names a permit: the hot claim does not write these columns.
func (b *limits) pendingNameNone() {
	b.t.Helper()
	var n int
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM run
		WHERE state = 0 /* pending */ AND (queue_permit IS NOT NULL OR key_permit IS NOT NULL)`).Scan(&n))
	require.Zero(b.t, n)
}

func (b *limits) running() (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM run WHERE state <> 0`).Scan(&n))
	return n
}

var failedOnce = job.Outcome{Kind: job.Failed, Retryable: true}

// TestEveryTransitionKeepsPermitsExact: whatever ends, reschedules or keeps an attempt, only live runs have permits.
func TestEveryTransitionKeepsPermitsExact(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: 3})
	keyed := func(_ int, d *job.Definition) { d.Concurrency = job.Concurrency{Key: "k", Max: 9} }
	keys := b.due(10, keyed)
	attempts, refused := b.claim(keys...)
	require.Len(t, attempts, 3)
	require.Len(t, refused, 7)
	require.Equal(t, job.LimitQueue, refused[0].Limit.Kind)
	require.Equal(t, 3, refused[0].Running)
	require.Len(t, attempts[0].Limits, 2)

	b.decide(job.Outcome{Kind: job.Succeeded}, attempts[0])
	require.Equal(t, 2, b.running())
	b.decide(failedOnce, attempts[1]) // a retry that waits has no permit
	require.Equal(t, 1, b.running())
	b.decide(job.Outcome{Kind: job.Accepted}, attempts[2]) // one that waits for its report has
	require.Equal(t, 1, b.running())
	more, refused := b.claim(keys[3:]...)
	require.Len(t, more, 2)
	require.Len(t, refused, 5)
	b.decide(job.Outcome{Kind: job.Succeeded}, attempts[2])
	b.decide(job.Outcome{Kind: job.Failed}, more[0]) // a dead letter
	_, err := b.store.CancelRun(t.Context(), job.RunParams{Namespace: b.namespace, Key: more[1].Key, Actor: "ann"})
	require.NoError(t, err)
	b.exact()
	b.pendingNameNone()
	require.Zero(t, b.running())

	// A run whose target is busy.
	attempts, _ = b.claim(keys[5:]...)
	require.Len(t, attempts, 3)
	for _, a := range attempts {
		b.decide(job.Outcome{Kind: job.Deferred, Message: "the target is busy"}, a)
	}
	b.exact()
	b.pendingNameNone()
	require.Zero(t, b.running())

	// A session that dies.
	attempts, _ = b.claim(keys[5:]...)
	require.Len(t, attempts, 3)
	b.exec(`UPDATE run SET session_id = gen_random_uuid() WHERE state = 1`)
	_, found, err := b.store.Rescue(t.Context(), allPartitions(), 100)
	require.NoError(t, err)
	require.Equal(t, 3, found)
	b.exact()
	b.pendingNameNone()
	require.Zero(t, b.running())

	// A job that is deleted while its run is live: the run ends by itself.
	attempts, _ = b.claim(keys[8:]...)
	require.Len(t, attempts, 2)
	_, err = b.store.DeleteJob(t.Context(), job.ChangeParams{Namespace: b.namespace, ID: attempts[0].Key.Job})
	require.NoError(t, err)
	b.exact()
	b.pendingNameNone()
	b.decide(failedOnce, attempts[0])
	require.Equal(t, 1, b.running())
	// And an attempt whose report is late frees nothing that is not its own.
	b.decide(job.Outcome{Kind: job.Succeeded}, attempts[0])
	require.Equal(t, 1, b.running())
	// A run whose host is busy waits without a permit.
	b.decide(job.Outcome{Kind: job.Deferred, RetryAfter: time.Minute}, attempts[1])
	b.exact()
	b.pendingNameNone()
	require.Zero(t, b.running())
}

// TestReplaceTakesThePermitOfWhatItReplaces, and ends nothing if it gets no permit.
func TestReplaceTakesThePermitOfWhatItReplaces(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: 1})
	first := b.due(1, func(_ int, d *job.Definition) { d.Overlap = job.OverlapReplace })[0]
	admit := func(k job.Key) job.Admitted {
		admitted, err := b.store.AdmitOne(t.Context(), b.session, k, time.Second)
		require.NoError(t, err)
		b.exact()
		return admitted
	}
	require.NotNil(t, admit(first).Claimed)
	trigger := func() job.Key {
		k, err := b.store.TriggerJob(
			t.Context(), job.ChangeParams{Namespace: b.namespace, ID: first.Job, Actor: "ann"}, nil,
		)
		require.NoError(t, err)
		return k
	}
	second := trigger()
	replacing := admit(second)
	require.NotNil(t, replacing.Claimed, "it takes the permit of the first one")
	require.Equal(t, 1, b.running())

	// Now another job has the permit, and the run of this one has a permit of a limit that is gone.
	b.limit("narrow", job.QueueLimits{MaxRunning: 2})
	other := b.due(1, nil)
	attempts, _ := b.claim(other...)
	require.Len(t, attempts, 1)
	b.limit("narrow", job.QueueLimits{MaxRunning: 1})
	third := trigger()
	got := admit(third)
	require.Nil(t, got.Claimed)
	require.False(t, got.Done)
	require.Equal(t, job.LimitQueue, got.Refusal.Limit.Kind)
	require.Equal(t, 2, b.running(), "what it would replace goes on")
	b.decide(job.Outcome{Kind: job.Succeeded}, attempts...)
	require.NotNil(t, admit(third).Claimed)
	require.Equal(t, 1, b.running())
}

// TestAKeyIsSharedByJobs of one namespace, each with its own maximum, and by no other namespace.
func TestAKeyIsSharedByJobs(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	keys := b.due(3, func(i int, d *job.Definition) {
		d.Queue, d.Concurrency = fmt.Sprintf("queue-%d", i), job.Concurrency{Key: "customer", Max: int32(i)} // 0: 1
	})
	attempts, refused := b.claim(keys[0])
	require.Len(t, attempts, 1)
	require.Empty(t, refused)
	attempts2, refused := b.claim(keys[1:]...)
	require.Len(t, attempts2, 1, "the third may run beside one other")
	require.Equal(t, keys[2].Job, attempts2[0].Key.Job)
	require.Len(t, refused, 1)
	require.Equal(t, job.LimitKey, refused[0].Limit.Kind)

	theirs := setupNamespace(b)
	attempts, _ = theirs.claim(theirs.due(1, func(_ int, d *job.Definition) { d.Concurrency.Key = "customer" })...)
	require.Len(t, attempts, 1)
}

func setupNamespace(b *limits) *limits {
	other := *b.jobs
	other.namespace = uuid.New()
	return &limits{&other, b.session}
}

// TestThePlainClaimStartsNothingUnderALimit, whatever its node knows about limits.
func TestThePlainClaimStartsNothingUnderALimit(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: 1})
	limited := b.due(2, nil)
	keyed := b.due(1, func(_ int, d *job.Definition) { d.Queue, d.Concurrency.Key = "wide", "k" })
	free := b.due(1, func(_ int, d *job.Definition) { d.Queue = "wide" })
	attempts, err := b.store.Claim(t.Context(), b.session, append(append(limited, keyed...), free...), time.Second)
	require.NoError(t, err)
	require.Len(t, attempts, 1)
	require.Equal(t, free[0].Job, attempts[0].Key.Job)
	b.exact()

	attempts, _ = b.claim(limited...)
	require.Len(t, attempts, 1)
	// An update moves what waits to another queue and takes its key away.
	j := b.get(job.Job{ID: keyed[0].Job})
	j.Concurrency = job.Concurrency{}
	b.update(j, j.Definition)
	attempts, err = b.store.Claim(t.Context(), b.session, keyed, time.Second)
	require.NoError(t, err)
	require.Len(t, attempts, 1)
	b.exact()
}

// TestALimitTakesInWhatRuns: runs that started before the limit count.
func TestALimitTakesInWhatRuns(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	keys := b.due(5, nil)
	attempts, err := b.store.Claim(t.Context(), b.session, keys[:3], time.Second)
	require.NoError(t, err)
	require.Len(t, attempts, 3)
	b.limit("narrow", job.QueueLimits{MaxRunning: 2})
	b.exact()
	none, _ := b.claim(keys[3:]...)
	require.Empty(t, none)
	b.decide(job.Outcome{Kind: job.Succeeded}, attempts[:2]...)
	one, _ := b.claim(keys[3:]...)
	require.Len(t, one, 1)

	// Without a limit runs need no permit; those that have one release it.
	b.limit("narrow", job.QueueLimits{})
	_, err = b.store.CompleteSucceeded(
		t.Context(), succeeded([]job.Attempt{one[0], attempts[2]}),
	)
	require.NoError(t, err)
	b.exact()
	attempts, err = b.store.Claim(t.Context(), b.session, keys[3:], time.Second)
	require.NoError(t, err)
	require.Len(t, attempts, 1)
	q, err := b.store.Queue(t.Context(), b.namespace, "narrow")
	require.NoError(t, err)
	require.Zero(t, q.Limits)
}

// TestALimitWaitsForClaimsUnderWay: a claim that did not see the limit may still commit. Claims that come later, of any
// namespace, do not wait meanwhile, and workers of other queues do not matter.
func TestALimitWaitsForClaimsUnderWay(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	key := b.due(1, nil)[0]
	lock := func(session uuid.UUID) pgx.Tx {
		t.Helper()
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
		_, err = tx.Exec(t.Context(), `SET LOCAL lock_timeout = '30s'`)
		require.NoError(t, err)
		_, err = tx.Exec(
			t.Context(),
			`SELECT pg_advisory_xact_lock_shared(('x' || right(replace($1::uuid::text, '-', ''), 16))::bit(64)::bigint)`,
			session,
		)
		require.NoError(t, err)
		return tx
	}
	other, _, err := b.store.OpenSession(
		t.Context(), job.SessionParams{Namespace: b.namespace, Queue: "other", Make: true, Name: "w", TTL: time.Hour},
	)
	require.NoError(t, err)
	lock(other.ID)
	tx := lock(b.session)
	_, err = tx.Exec(
		t.Context(), `UPDATE run SET state = 1, attempt = 1, session_id = $1 WHERE job_id = $2`, b.session, key.Job,
	)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	set := make(chan error, 1)
	go func() {
		set <- b.store.LimitQueue(ctx, job.QueueParams{
			Namespace: b.namespace, Name: "narrow", Limits: job.QueueLimits{MaxRunning: 1},
		})
	}()
	require.Eventually(t, func() bool {
		var waits bool
		require.NoError(
			t,
			b.pool.QueryRow(t.Context(), `
				SELECT EXISTS (
				    SELECT FROM pg_locks
				    WHERE NOT granted AND locktype = 'advisory'
				      AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).
				Scan(&waits),
		)
		return waits
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, lock(b.session).Rollback(t.Context()), "another claim")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-set)
	b.exact()
}

// TestManyClaimersNeverExceedALimit: 8 claimers, each with its own store, on one queue and one key. Half of them claim as
// waitlists do, half as admitters do.
func TestManyClaimersNeverExceedALimit(t *testing.T) {
	t.Parallel()
	const claimers, runs, queueMax, keyMax = 8, 400, 20, 7
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: queueMax})
	keys := b.due(runs, func(i int, d *job.Definition) {
		if i%2 == 0 {
			d.Concurrency = job.Concurrency{Key: "k", Max: keyMax}
		}
	})
	var mu sync.Mutex
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	live, most, done := [2]int{}, [2]int{}, 0
	for c := range claimers {
		store := pgtest.NewStore(b.pool)
		claim := func(keys []job.Key) ([]job.Attempt, []refusedRun, error) {
			if c%2 == 0 {
				return admit(ctx, store, b.session, keys)
			}
			return claimWaiting(ctx, b.pool, store, b.session, keys)
		}
		wg.Go(func() {
			mine := keys[c*runs/claimers : (c+1)*runs/claimers]
			for len(mine) > 0 {
				attempts, refused, err := claim(mine)
				if !noFailure(t, err) {
					return
				}
				// What has begun counts from here on, and what ends until just before it does.
				mu.Lock()
				countLive(&live, attempts, 1)
				most = [2]int{max(most[0], live[0]), max(most[1], live[1])}
				done += len(attempts)
				mu.Unlock()
				if !noFailure(t, store.DB.Ping(t.Context())) {
					return
				}
				mu.Lock()
				countLive(&live, attempts, -1)
				mu.Unlock()
				if _, err := store.CompleteSucceeded(t.Context(), succeeded(attempts)); !noFailure(t, err) {
					return
				}
				mine = nil
				for _, r := range refused {
					mine = append(mine, r.Key)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, runs, done)
	require.LessOrEqual(t, most[0], queueMax)
	require.LessOrEqual(t, most[1], keyMax)
	require.Positive(t, most[1])
	b.exact()
}

// TestARateIsOneForAll: the claimers of all nodes take tokens from one bucket.
func TestARateIsOneForAll(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{Rate: job.Rate{Count: 1, Seconds: 3600}, Burst: 5})
	keys := b.due(8, nil)
	attempts, refused := b.claim(keys[:3]...)
	require.Len(t, attempts, 3)
	require.Empty(t, refused)
	attempts, refused = b.claim(keys[3:]...)
	require.Len(t, attempts, 2)
	require.Len(t, refused, 3)
	require.InDelta(t, time.Hour, refused[0].After, float64(time.Minute))
	b.exec(`UPDATE queue_rate SET refilled_at = refilled_at - interval '2 hours'`)
	attempts, _ = b.claim(keys[5:]...)
	require.Len(t, attempts, 2)
}

// TestPriorityHoldsAcrossNodes: no node starts a run while another reports a waiter of higher priority.
func TestPriorityHoldsAcrossNodes(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: 3})
	keys := b.due(2, func(i int, d *job.Definition) { d.Priority = int16(5 * i) })
	var queue int32
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT id FROM queue`).Scan(&queue))
	say := func(session uuid.UUID, priority int16, at time.Time) {
		_, err := b.store.ReportWaiters(
			t.Context(), session, nil, []job.WaiterReport{{Queue: queue, Waiting: 4, Priority: priority, RunAt: at}},
		)
		require.NoError(t, err)
	}
	say(uuid.New(), 4, b.now())
	say(b.session, 9, b.now()) // its own is no reason
	q, err := b.store.Queue(t.Context(), b.namespace, "narrow")
	require.NoError(t, err)
	require.EqualValues(t, 8, q.Waiting)
	attempts, refused := b.claim(keys...)
	require.Len(t, attempts, 1)
	require.Equal(t, keys[1].Job, attempts[0].Key.Job)
	require.Len(t, refused, 1)
	b.exec(`UPDATE queue_waiter SET reported_at = reported_at - interval '5 s'`)
	attempts, _ = b.claim(keys[0])
	require.Len(t, attempts, 1, "who says nothing any more is not waited for")
}

// TestPermitsAreReconciled: a permit without a run, and a run without a permit, do not last.
func TestPermitsAreReconciled(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{MaxRunning: 5})
	keys := b.due(4, nil)
	attempts, _ := b.claim(keys...)
	require.Len(t, attempts, 4)
	b.exec(`DELETE FROM run WHERE job_id = $1`, keys[0].Job)
	b.exec(`UPDATE run SET state = 0 WHERE job_id = $1`, keys[1].Job)
	b.exec(`UPDATE run SET queue_permit = NULL WHERE job_id = $1`, keys[2].Job)
	removed, added, _, err := b.store.Reconcile(t.Context(), allPartitions())
	require.NoError(t, err)
	require.Equal(t, []int{3, 1}, []int{removed, added})
	b.exact()
	removed, added, _, err = b.store.Reconcile(t.Context(), allPartitions())
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, []int{removed, added})
}

// TestCountingSurvivesNumbersThatGoBack, as after a failover to a server that lacks the last commits. Other nodes have
// used numbers beyond the mark again before this one asks.
func TestCountingSurvivesNumbersThatGoBack(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]int{"at once": 5, "after others": 6_000_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupLimits(t)
			b.limit("narrow", job.QueueLimits{MaxRunning: 2})
			keys := b.due(5, nil)
			attempts, _ := b.claim(keys[0])
			b.decide(job.Outcome{Kind: job.Succeeded}, attempts...)
			b.exec(`SELECT setval('permit_number', 5000000)`)
			attempts, _ = b.claim(keys[1])
			require.Len(t, attempts, 1)
			_, _ = b.claim(keys[2:3]...) // it has seen the great numbers
			b.decide(job.Outcome{Kind: job.Succeeded}, attempts...)
			b.failOver(1)
			b.exec(`SELECT setval('permit_number', $1)`, next)
			b.exec(`UPDATE permit SET number = 4 WHERE number > 5`)
			b.exec(`UPDATE run SET queue_permit = 4 WHERE queue_permit > 5`)
			attempts, refused := b.claim(keys[3:]...)
			require.Len(t, attempts, 1)
			require.Len(t, refused, 1)
		})
	}
}

func noFailure(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func countLive(live *[2]int, attempts []job.Attempt, n int) {
	for _, a := range attempts {
		live[0] += n
		if len(a.Limits) == 2 {
			live[1] += n
		}
	}
}

// TestPermitsAreCountedUpToTheHighestLimit: a queue with only a rate may have any number of live runs. A claim counts
// no more of them than it has to.
func TestPermitsAreCountedUpToTheHighestLimit(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.limit("narrow", job.QueueLimits{Rate: job.Rate{Count: 1, Seconds: 1}})
	var id int32
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT id FROM queue WHERE name = 'narrow'`).Scan(&id))
	b.exec(`INSERT INTO permit (limit_kind, limit_id, number, queue_id, partition, job_id, due_at, seq)
		SELECT 1, $1::integer, nextval('permit_number'), $1::integer, 7, gen_random_uuid(), now(), 0 FROM generate_series(1, $2)`,
		id, 2*job.MaxRunning)
	limit := job.QueueLimit(id)
	capacity, err := b.store.ReportWaiters(t.Context(), b.session, []job.Limit{limit}, nil)
	require.NoError(t, err)
	require.Equal(t, job.MaxRunning+1, capacity[limit].Running)
}
