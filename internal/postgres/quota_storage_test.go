package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// storageIsExact compares what the triggers have counted with the jobs.
func (b *quotas) storageIsExact() {
	b.t.Helper()
	for _, ns := range []uuid.UUID{b.namespace, b.other} {
		used, _ := b.use(ns, access.QuotaStorage)
		var want int64
		require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `
			SELECT coalesce(sum(octet_length(coalesce(payload, '')) + octet_length(target_config)), 0)::bigint
			FROM job WHERE namespace_id = $1`, ns).Scan(&want))
		require.Equal(b.t, want, used)
	}
}

// payload returns a definition with a payload of n bytes.
func payload(name string, n int) job.Definition {
	d := definition(name, everyHour)
	d.Payload = json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)
	return d
}

func TestAQuotaOfStorage(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	create := func(name string, n int) (job.Job, error) {
		return b.store.CreateJob(t.Context(), job.CreateParams{Namespace: b.namespace, Definition: payload(name, n)})
	}
	first, err := create("first", 100)
	require.NoError(t, err)
	b.storageIsExact()
	one, _ := b.use(b.namespace, access.QuotaStorage)
	rest := one - 100 // the target
	b.set(access.QuotaStorage, 2*one)
	second, err := create("second", 100)
	require.NoError(t, err)
	_, err = create("third", 100)
	b.refused(err, access.QuotaError{Quota: access.QuotaStorage, Limit: 2 * one, Used: 2 * one, Added: one})
	_, err = b.createIn(b.other, "of others")
	require.NoError(t, err)

	update := func(j job.Job, n int) error {
		_, err := b.store.UpdateJob(t.Context(), job.UpdateParams{
			Namespace: b.namespace, ID: j.ID, Definition: payload(j.Name, n), Actor: "test",
		})
		return err
	}
	b.refused(update(first, 101), access.QuotaError{Quota: access.QuotaStorage, Limit: 2 * one, Used: 2 * one, Added: 1})
	b.storageIsExact()
	require.NoError(t, update(first, 60))
	require.NoError(t, update(second, 140))
	b.set(access.QuotaStorage, one)
	require.NoError(t, update(second, 130), "less can be stored, even if that is still too much")
	b.exec(`UPDATE job SET priority = 3`)
	b.storageIsExact()
	b.remove(first)
	b.storageIsExact()
	used, _ := b.use(b.namespace, access.QuotaStorage)
	require.Equal(t, rest+130, used)
	b.remove(second)
	b.storageIsExact()
}

// TestAQuotaOfQueues: however a queue is created, and by whom at the same time.
func TestAQuotaOfQueues(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	ctx := t.Context()
	_, limit := b.use(b.namespace, access.QuotaQueues)
	require.EqualValues(t, 10_000, limit, "of a namespace whose operator sets no other")
	j, err := b.createIn(b.namespace, "job") // creates the queue default
	require.NoError(t, err)
	b.set(access.QuotaQueues, 4)
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
	require.Equal(t, 4, b.count(`queue`))
	require.Equal(t, 3, b.count(`session WHERE queue_id IS NOT NULL`), "without its queue, no session either")

	over := access.QuotaError{Quota: access.QuotaQueues, Limit: 4, Used: 4, Added: 1}
	b.refused(b.store.CreateQueue(ctx, job.QueueParams{Namespace: b.namespace, Name: "new", Actor: "test"}), over)
	d := definition("another", everyHour)
	d.Queue = "new"
	_, err = b.store.CreateJob(ctx, job.CreateParams{Namespace: b.namespace, Definition: d})
	b.refused(err, over)
	d.Name = j.Name
	_, err = b.store.UpdateJob(ctx, job.UpdateParams{Namespace: b.namespace, ID: j.ID, Definition: d})
	b.refused(err, over)
	require.Equal(t, 4, b.count(`queue`))
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
