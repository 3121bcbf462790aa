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
	before := last()
	require.NoError(t, bulk("second", "a", "b", "c"))
	require.Equal(t, before+1, last(), "queues that exist take no id")

	const most = access.MaxQueues
	b.fillQueues(1)
	before = last()
	b.refused(bulk("third", "a", "d", "e"), access.QuotaError{Quota: access.CapQueues, Limit: most, Used: most - 1, Added: 2})
	require.Equal(t, before, last())
	jobs, _ := b.use(b.namespace, access.QuotaJobs)
	b.set(access.QuotaJobs, jobs)
	b.refused(bulk("fourth", "d"), access.QuotaError{Quota: access.QuotaJobs, Limit: jobs, Used: jobs, Added: 1})
	require.Equal(t, before, last(), "another quota refuses the job")

	b.exec(`UPDATE namespace SET max_jobs = NULL`)
	full := access.QuotaError{Quota: access.CapQueues, Limit: most, Used: most, Added: 1}
	b.fillQueues(0)
	before = last()
	b.refused(open("d"), full)
	require.Equal(t, before, last())
	var id uuid.UUID
	require.NoError(t, b.pool.QueryRow(ctx, `SELECT id FROM job WHERE name = 'first-0'`).Scan(&id))
	_, err := b.store.UpdateJob(ctx, job.UpdateParams{Namespace: b.namespace, ID: id, Definition: inQueue("first-0", "d")})
	b.refused(err, full)
	require.Equal(t, before, last())

	b.exec(`DELETE FROM queue WHERE id = (SELECT max(id) FROM queue)`)
	b.exec(`INSERT INTO session (id, name, namespace_id, queue_id, started_at, expires_at, may_own)
		SELECT gen_random_uuid(), 'w', $1, 1, now(), now() + '1 minute', false FROM generate_series(1, $2)`,
		b.namespace, access.MaxSessions)
	b.refused(open("d"), access.QuotaError{
		Quota: access.CapSessions, Limit: access.MaxSessions, Used: access.MaxSessions, Added: 1,
	})
	require.Equal(t, before, last())
}
