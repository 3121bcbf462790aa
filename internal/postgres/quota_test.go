package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// quotas is a namespace with quotas, and another one without.
type quotas struct {
	*secretBundle
	other uuid.UUID
	ahead time.Duration // see plan
}

func setupQuotas(t *testing.T) *quotas {
	t.Helper()
	b := &quotas{secretBundle: setupSecrets(t), other: uuid.New()}
	b.exec(`UPDATE namespace SET name = 'mine' WHERE id = $1`, b.namespace)
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'other')`, b.other)
	return b
}

// set sets a quota of the namespace, as the operator of the cluster does.
func (b *quotas) set(q access.Quota, limit int64) {
	b.t.Helper()
	_, err := b.jobs.store.SetQuotas(b.t.Context(), "mine", access.QuotaParams{q: &limit})
	require.NoError(b.t, err)
}

// use returns how much of a quota is used, and the quota.
func (b *quotas) use(namespace uuid.UUID, q access.Quota) (used, limit int64) {
	b.t.Helper()
	all, err := b.store.Quotas(b.t.Context(), namespace)
	require.NoError(b.t, err)
	require.Len(b.t, all, len(access.Quotas))
	for _, u := range all {
		if u.Quota != q {
			continue
		}
		used, limit = -1, -1
		if u.Used != nil {
			used = *u.Used
		}
		if u.Limit != nil {
			limit = *u.Limit
		}
	}
	return used, limit
}

func (b *quotas) createIn(namespace uuid.UUID, name string) (job.Job, error) {
	return b.store.CreateJob(b.t.Context(), job.CreateParams{Namespace: namespace, Definition: definition(name, everyHour)})
}

func (b *quotas) refused(err error, want access.QuotaError) {
	b.t.Helper()
	var got *access.QuotaError
	require.ErrorAs(b.t, err, &got)
	require.Equal(b.t, want, *got)
}

func TestAQuotaOfJobs(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	b.set(access.QuotaJobs, 3)
	var first job.Job
	for i := range 3 {
		j, err := b.createIn(b.namespace, fmt.Sprintf("job-%d", i))
		require.NoError(t, err)
		first = j
	}
	_, err := b.createIn(b.namespace, "one too many")
	b.refused(err, access.QuotaError{Quota: access.QuotaJobs, Limit: 3, Used: 3, Added: 1})
	require.Equal(t, 3, b.count(`job`), "nothing of it is left")
	require.Equal(t, 3, b.count(`audit_log WHERE action = 'job.create'`))

	bulk := job.BulkParams{Namespace: b.namespace, Jobs: []job.NewJob{
		{Definition: definition("a", everyHour)}, {Definition: definition("b", everyHour)},
	}}
	b.remove(first)
	_, err = b.store.CreateJobs(t.Context(), bulk)
	b.refused(err, access.QuotaError{Quota: access.QuotaJobs, Limit: 3, Used: 2, Added: 2})
	require.Equal(t, 2, b.count(`job`), "all of a bulk or none")
	_, err = b.createIn(b.namespace, "in place of the deleted one")
	require.NoError(t, err)

	_, err = b.createIn(b.other, "of others")
	require.NoError(t, err)
	used, limit := b.use(b.namespace, access.QuotaJobs)
	require.Equal(t, []int64{3, 3}, []int64{used, limit})
	used, limit = b.use(b.other, access.QuotaJobs)
	require.Equal(t, []int64{1, -1}, []int64{used, limit})

	b.set(access.QuotaJobs, 1)
	require.Equal(t, 4, b.count(`job`), "what exceeds a new quota stays")
	_, err = b.jobs.store.SetQuotas(t.Context(), "mine", access.QuotaParams{access.QuotaJobs: nil})
	require.NoError(t, err)
	_, err = b.createIn(b.namespace, "without a quota")
	require.NoError(t, err)
}

// TestAQuotaHoldsForConcurrentJobs: a quota of jobs is exact, although none of the transactions sees those of the others.
func TestAQuotaHoldsForConcurrentJobs(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	const quota, writers = 25, 8
	b.set(access.QuotaJobs, quota)
	var created, refused atomic.Int64
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := range 10 {
				_, err := b.createIn(b.namespace, fmt.Sprintf("job-%d-%d", w, i))
				var over *access.QuotaError
				switch {
				case err == nil:
					created.Add(1)
				case errors.As(err, &over):
					refused.Add(1)
				default:
					assert.NoError(t, err)
				}
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, quota, created.Load())
	require.EqualValues(t, writers*10-quota, refused.Load())
	require.Equal(t, quota, b.count(`job`))
	used, _ := b.use(b.namespace, access.QuotaJobs)
	require.EqualValues(t, quota, used)
	require.LessOrEqual(t, b.count(`namespace_usage`), 2*writers, "about as many rows as transactions at the same time")
}

// TestCountingJobsWaitsForNoOne: a transaction that has counted a job keeps no other one from counting.
func TestCountingJobsWaitsForNoOne(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	for i := range 4 {
		_, err := b.createIn(b.namespace, fmt.Sprintf("job-%d", i))
		require.NoError(t, err)
	}
	begin := func() pgx.Tx {
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(t.Context()) })
		_, err = tx.Exec(t.Context(), `SET LOCAL lock_timeout = '10s'`)
		require.NoError(t, err)
		return tx
	}
	one, two := begin(), begin()
	for i, tx := range []pgx.Tx{one, two} {
		_, err := tx.Exec(t.Context(), `DELETE FROM job WHERE name = $1`, fmt.Sprintf("job-%d", i))
		require.NoError(t, err)
	}
	_, err := b.createIn(b.namespace, "meanwhile")
	require.NoError(t, err)
	require.NoError(t, one.Commit(t.Context()))
	require.NoError(t, two.Rollback(t.Context()))
	used, _ := b.use(b.namespace, access.QuotaJobs)
	require.EqualValues(t, 4, used)
	require.Equal(t, 4, b.count(`job`))
}

// TestJobsAreCountedWhereverTheyGo: the count follows one-offs that a node removes, of several namespaces at once.
func TestJobsAreCountedWhereverTheyGo(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	for i := range 3 {
		d := definition(fmt.Sprintf("once-%d", i), schedule.Spec{At: b.now().Add(-time.Second).Format(time.RFC3339)})
		for _, ns := range []uuid.UUID{b.namespace, b.other} {
			_, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: ns, Definition: d})
			require.NoError(t, err)
		}
	}
	counts := func(mine, theirs int64) {
		t.Helper()
		m, _ := b.use(b.namespace, access.QuotaJobs)
		o, _ := b.use(b.other, access.QuotaJobs)
		require.Equal(t, []int64{mine, theirs}, []int64{m, o})
	}
	counts(3, 3)

	b.exec(`DELETE FROM run`)
	b.exec(`UPDATE job SET state = 3, finished_at = now() - interval '400 days' WHERE name LIKE 'once-%' AND name <> 'once-0'`)
	n, err := b.store.RemoveJobs(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	counts(1, 1)
}

// fill adds rows to a table until the namespace has all but left of what it may have.
func (b *quotas) fill(most, left int, table, insert string) {
	b.t.Helper()
	n := most - left - b.count(fmt.Sprintf(`%s WHERE namespace_id = '%s'`, table, b.namespace))
	b.exec(insert+` FROM generate_series(1, $2) g`, b.namespace, n)
}

func (b *quotas) fillQueues(left int) {
	b.fill(access.MaxQueues, left, `queue`, `INSERT INTO queue (namespace_id, name) SELECT $1, 'fill-' || gen_random_uuid()`)
}

// TestCapsOfKeysAndSecrets: they hold for any number of nodes that create them at the same time.
func TestCapsOfKeysAndSecrets(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	key := func(ns uuid.UUID) (access.APIKey, error) {
		k, _, err := b.store.CreateKey(t.Context(), access.KeyParams{Namespace: ns, Name: "k", Role: access.Viewer, Actor: "test"})
		return k, err
	}
	secret := func(ns uuid.UUID, name string) error {
		_, err := b.store.PutSecret(t.Context(), access.SecretParams{
			Namespace: ns, Name: name, Value: access.Secret{Values: []string{"x"}}, Actor: "test",
		})
		return err
	}
	b.fill(access.MaxKeys, 2, `api_key`, `INSERT INTO api_key (id, namespace_id, name, role, prefix, hash, created_by, created_at)
		SELECT gen_random_uuid(), $1, 'k', 'viewer', 'x', sha256(g::text::bytea), 'test', now()`)
	b.fill(access.MaxSecrets, 1, `secret`, `INSERT INTO secret (namespace_id, name, version, value, created_at, updated_at, updated_by)
		SELECT $1, 'fill-' || g, 1, '', now(), now(), 'test'`)
	for range 3 { // revoked keys do not count
		k, err := key(b.namespace)
		require.NoError(t, err)
		_, err = b.store.RevokeKey(t.Context(), b.namespace, k.ID, "test")
		require.NoError(t, err)
	}
	var wait sync.WaitGroup
	var keys, secrets atomic.Int64
	for i := range 6 {
		wait.Go(func() {
			if _, err := key(b.namespace); err == nil {
				keys.Add(1)
			}
			if secret(b.namespace, fmt.Sprintf("s-%d", i)) == nil {
				secrets.Add(1)
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 2, keys.Load())
	require.EqualValues(t, 1, secrets.Load())
	_, err := key(b.namespace)
	b.refused(err, access.QuotaError{Quota: access.CapKeys, Limit: access.MaxKeys, Used: access.MaxKeys, Added: 1})
	require.ErrorContains(t, err, "the namespace has 10000 keys, and this needs 1 more, but a namespace has at most 10000; revoke")
	require.ErrorContains(t, secret(b.namespace, "more"), "the namespace has 1000 secrets, which is the most")
	require.NoError(t, secret(b.namespace, "fill-1"), "a new value of a secret adds none")
	require.NoError(t, secret(b.other, "theirs"))
	_, err = key(b.other)
	require.NoError(t, err)
}

// TestACapOfQueues: however a queue is created, and by whom at the same time.
func TestACapOfQueues(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	ctx := t.Context()
	j, err := b.createIn(b.namespace, "job") // creates the queue default
	require.NoError(t, err)
	b.fillQueues(3)
	var wait sync.WaitGroup
	var created atomic.Int64
	for i := range 8 {
		wait.Go(func() {
			_, _, err := b.jobs.store.OpenSession(ctx, job.SessionParams{
				Namespace: b.namespace, Queue: fmt.Sprintf("q-%d", i), Make: true, Name: "w", TTL: time.Minute,
			})
			if err == nil {
				created.Add(1)
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 3, created.Load())
	require.Equal(t, access.MaxQueues, b.count(`queue`))
	require.Equal(t, 3, b.count(`session WHERE queue_id IS NOT NULL`), "without its queue, no session either")

	over := access.QuotaError{Quota: access.CapQueues, Limit: access.MaxQueues, Used: access.MaxQueues, Added: 1}
	b.refused(b.store.CreateQueue(ctx, job.QueueParams{Namespace: b.namespace, Name: "new", Actor: "test"}), over)
	d := definition("another", everyHour)
	d.Queue = "new"
	_, err = b.store.CreateJob(ctx, job.CreateParams{Namespace: b.namespace, Definition: d})
	b.refused(err, over)
	d.Name = j.Name
	_, err = b.store.UpdateJob(ctx, job.UpdateParams{Namespace: b.namespace, ID: j.ID, Definition: d})
	b.refused(err, over)
	require.Equal(t, access.MaxQueues, b.count(`queue`))
	require.NoError(t, b.store.CreateQueue(ctx, job.QueueParams{Namespace: b.other, Name: "new", Actor: "test"}))
	_, err = b.createIn(b.namespace, "in a queue that exists")
	require.NoError(t, err)
}

// TestWhatExceedsAQuotaIsNotInsertedFirst: 1,000 jobs would be written and rolled back.
func TestWhatExceedsAQuotaIsNotInsertedFirst(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	b.set(access.QuotaJobs, 1)
	b.exec(`CREATE FUNCTION forbidden() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''inserted''; END';
		CREATE TRIGGER forbidden BEFORE INSERT ON job EXECUTE FUNCTION forbidden()`)
	_, err := b.store.CreateJobs(t.Context(), job.BulkParams{Namespace: b.namespace, Jobs: []job.NewJob{
		{Definition: definition("a", everyHour)}, {Definition: definition("b", everyHour)},
	}})
	b.refused(err, access.QuotaError{Quota: access.QuotaJobs, Limit: 1, Used: 0, Added: 2})
}

// TestOnlyTheOwnerSetsQuotas: neither a server nor a user of the namespace does.
func TestOnlyTheOwnerSetsQuotas(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	limit := int64(5)
	p := access.QuotaParams{access.QuotaJobs: &limit}
	_, err := b.store.SetQuotas(t.Context(), "mine", p)
	require.ErrorContains(t, err, "permission denied")
	_, err = b.jobs.store.SetQuotas(t.Context(), "nowhere", p)
	require.ErrorContains(t, err, `there is no namespace "nowhere"`)
	limit = -1
	_, err = b.jobs.store.SetQuotas(t.Context(), "mine", p)
	require.ErrorContains(t, err, "jobs: -1 is out of range")
	require.Zero(t, b.count(`namespace WHERE max_jobs IS NOT NULL`))
	b.set(access.QuotaJobs, 5)
	require.Equal(t, 1, b.count(`audit_log WHERE action = 'namespace.update' AND detail = '{"quotas":{"jobs":5}}'`))
}

// TestAQuotaOfRunsWaitsBriefly: a change of a queue that waits for the lock of the quota goes on.
func TestAQuotaOfRunsWaitsBriefly(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	ctx := t.Context()
	tx, err := b.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `INSERT INTO queue (namespace_id, name) VALUES ($1, 'mine')`, b.namespace)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	tx, err = b.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM queue WHERE name = 'mine' FOR UPDATE`)
	require.NoError(t, err)
	set := make(chan error, 1)
	go func() {
		limit := int64(60)
		_, err := b.jobs.store.SetQuotas(ctx, "mine", access.QuotaParams{access.QuotaRuns: &limit})
		set <- err
	}()
	require.Eventually(t, func() bool {
		return b.count(`pg_locks WHERE relation = 'queue'::regclass AND mode = 'ShareRowExclusiveLock' AND granted`) == 1
	}, time.Minute, time.Millisecond)
	_, err = tx.Exec(ctx, `UPDATE queue SET paused = true WHERE name = 'mine'`)
	require.NoError(t, err, "without the limit, PostgreSQL ends one of the two as a deadlock")
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-set)
}
