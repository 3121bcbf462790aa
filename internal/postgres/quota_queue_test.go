package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestARefusalUsesUpNoIDsOfQueues: the ids of queues are integers that all namespaces share, so a namespace at a quota
// must not use them up by requests that are refused.
func TestARefusalUsesUpNoIDsOfQueues(t *testing.T) {
	t.Parallel()
	b := setupQuotas(t)
	ctx := t.Context()
	inQueue := func(name, queue string) job.Definition {
		d := definition(name, everyHour)
		d.Queue = queue
		return d
	}
	bulk := func(name string, queues ...string) error {
		p := job.BulkParams{Namespace: b.namespace}
		for i, queue := range queues {
			p.Jobs = append(p.Jobs, job.NewJob{Definition: inQueue(fmt.Sprintf("%s-%d", name, i), queue)})
		}
		_, err := b.store.CreateJobs(ctx, p)
		return err
	}
	open := func(queue string) error {
		_, _, err := pgtest.NewStore(b.pool).OpenSession(ctx, job.SessionParams{
			Namespace: b.namespace, Queue: queue, Make: true, Name: "w", TTL: time.Minute,
		})
		return err
	}
	last := func() (id int64) {
		const read = `SELECT last_value FROM pg_sequences WHERE sequencename = 'queue_id_seq'`
		require.NoError(t, b.pool.QueryRow(ctx, read).Scan(&id))
		return id
	}
	require.NoError(t, bulk("first", "a", "b"))
	queues := b.count(`queue`)
	before := last()
	require.NoError(t, bulk("second", "a", "b", "c"))
	require.Equal(t, before+1, last(), "queues that exist take no id")

	used, _ := b.use(b.namespace, access.QuotaQueues)
	b.set(access.QuotaQueues, used+1)
	before = last()
	b.refused(bulk("third", "a", "d", "e"), access.QuotaError{Quota: access.QuotaQueues, Limit: used + 1, Used: used, Added: 2})
	require.Equal(t, before, last())
	jobs, _ := b.use(b.namespace, access.QuotaJobs)
	b.set(access.QuotaJobs, jobs)
	b.refused(bulk("fourth", "d"), access.QuotaError{Quota: access.QuotaJobs, Limit: jobs, Used: jobs, Added: 1})
	require.Equal(t, before, last(), "another quota refuses the job")

	full := access.QuotaError{Quota: access.QuotaQueues, Limit: used, Used: used, Added: 1}
	b.set(access.QuotaQueues, used)
	b.refused(open("d"), full)
	require.Equal(t, before, last())
	var id uuid.UUID
	require.NoError(t, b.pool.QueryRow(ctx, `SELECT id FROM job WHERE name = 'first-0'`).Scan(&id))
	_, err := b.store.UpdateJob(ctx, job.UpdateParams{Namespace: b.namespace, ID: id, Definition: inQueue("first-0", "d")})
	b.refused(err, full)
	require.Equal(t, before, last())

	b.set(access.QuotaQueues, used+1)
	b.set(access.QuotaSessions, 0)
	b.refused(open("d"), access.QuotaError{Quota: access.QuotaSessions, Added: 1})
	require.Equal(t, before, last())
	require.Equal(t, queues+1, b.count(`queue`))
}
