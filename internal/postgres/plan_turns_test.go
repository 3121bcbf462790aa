package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

const smallNamespace = `'00000000-0000-7000-8000-00000000000b'`

// cursors creates n cursors of every hour in a partition, each with some jobs, whose next occurrence was due that long ago.
func (b *bulk) cursors(namespace string, partition, n, jobs int, ago time.Duration) {
	b.t.Helper()
	b.exec(`INSERT INTO cursor (partition, namespace_id, key, schedule, missed, next_due_at)
		SELECT $1, `+namespace+`, sha256(c::text::bytea), format('{"every":"1h","anchor":"%s"}',
		           to_char(now() - $3::interval, 'YYYY-MM-DD"T"HH24:MI:SSOF":00"')), `+bulkMissed+`,
		       date_trunc('second', now() - $3::interval)
		FROM generate_series(1, $2::int) c`, partition, n, ago)
	b.exec(`
		INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms,
		                 timeout_ms, plan_from, created_at, updated_at, name, target_kind, target_config, payload,
		                 schedule, policy)
		SELECT $1, gen_random_uuid(), c.namespace_id, c.id, 1, 1, 1, 0, 1, 0, 30000, now() - interval '1 day', now(), now(),
		       c.id || '-' || j, 'noop', '{}', '""', '{}', '{}'
		FROM cursor c, generate_series(1, $2::int) j
		WHERE c.partition = $1 AND c.namespace_id = `+namespace, partition, jobs)
}

func setupSmall(t *testing.T) *bulk {
	t.Helper()
	b := setupBulk(t, nil)
	b.exec(`INSERT INTO namespace (id, name) VALUES (` + smallNamespace + `, 'small')`)
	return b
}

// late returns how many cursors of a namespace are late.
func (b *bulk) late(namespace string) (n int) {
	b.t.Helper()
	row := b.pool.QueryRow(b.t.Context(),
		`SELECT count(*) FROM cursor WHERE next_due_at < now() AND namespace_id = `+namespace)
	require.NoError(b.t, row.Scan(&n))
	return n
}

// planTimes plans the partitions 7 and 9 a number of times.
func (b *bulk) planTimes(n int, in job.PlanParams) {
	b.t.Helper()
	in.Partitions, in.LookAhead, in.Cursors = []int16{7, 9}, time.Minute, 10
	for range n {
		planned, err := b.store.Plan(b.t.Context(), in)
		require.NoError(b.t, err)
		require.Empty(b.t, planned.Broken)
		require.LessOrEqual(b.t, planned.Cursors, in.Cursors)
	}
}

// TestLateCursorsOfANamespaceDoNotHideOthers: one namespace has more late cursors than a transaction reads, all due
// before the one of the other. After the first transaction it is the turn of the other.
func TestLateCursorsOfANamespaceDoNotHideOthers(t *testing.T) {
	t.Parallel()
	b := setupSmall(t)
	b.cursors(bulkNamespace, 7, 100, 1, 10*time.Minute)
	b.cursors(smallNamespace, 7, 1, 1, time.Minute)
	b.planTimes(2, job.PlanParams{})
	require.Zero(t, b.late(smallNamespace))
	require.Equal(t, 81, b.late(bulkNamespace), "the transactions are full nevertheless")
}

// TestRunsOfANamespaceDoNotDelayOthers: the cursor of one namespace has more jobs than a transaction plans, so it is
// planned in parts. The other namespace does not wait for the last part.
func TestRunsOfANamespaceDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	b := setupSmall(t)
	b.cursors(bulkNamespace, 7, 3, 50, 10*time.Minute)
	b.cursors(smallNamespace, 9, 3, 1, time.Minute)
	b.planTimes(2, job.PlanParams{Runs: 10})
	require.Zero(t, b.late(smallNamespace))
	require.Equal(t, 3, b.late(bulkNamespace))
	b.planTimes(20, job.PlanParams{Runs: 10})
	require.Zero(t, b.late(bulkNamespace), "it gets what the others leave")
}

// TestACursorWithManyJobsHasItsTurn: a cursor that is planned alone, in parts, is not passed over for ever, though each
// transaction has something of a namespace that had nothing yet.
func TestACursorWithManyJobsHasItsTurn(t *testing.T) {
	t.Parallel()
	b := setupSmall(t)
	b.cursors(bulkNamespace, 7, 1, 30, 10*time.Minute)
	for range 6 {
		namespace := uuid.New()
		b.exec(`INSERT INTO namespace (id, name) VALUES ($1, $2)`, namespace, namespace.String())
		b.cursors("'"+namespace.String()+"'", 9, 1, 1, time.Minute)
		b.planTimes(1, job.PlanParams{Runs: 10})
	}
	require.Zero(t, b.late(bulkNamespace))
}

// TestAFullNamespaceDoesNotStopOthers: late cursors of a full namespace stay where they are, and those of others are
// planned. The first transaction finds them, however many late cursors the full one has.
func TestAFullNamespaceDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	b := setupSmall(t)
	b.cursors(bulkNamespace, 7, 100, 1, 10*time.Minute)
	b.cursors(smallNamespace, 7, 2, 1, 5*time.Minute)
	b.planTimes(1, job.PlanParams{Full: []uuid.UUID{uuid.MustParse(strings.Trim(bulkNamespace, "'"))}})
	require.Zero(t, b.late(smallNamespace))
	require.Equal(t, 100, b.late(bulkNamespace))
}

// TestLateCursorsOfAPartitionDoNotHideOthers: many late cursors of one partition do not hide those of another that are
// due before them.
func TestLateCursorsOfAPartitionDoNotHideOthers(t *testing.T) {
	t.Parallel()
	b := setupSmall(t)
	b.cursors(bulkNamespace, 7, 100, 1, time.Minute)
	b.cursors(bulkNamespace, 9, 1, 1, 10*time.Minute)
	b.planTimes(1, job.PlanParams{})
	var next time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT next_due_at FROM cursor WHERE partition = 9`).Scan(&next))
	require.True(t, next.After(b.now()))
}
