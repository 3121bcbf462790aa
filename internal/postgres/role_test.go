package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

func TestAServerDoesNotWorkAsOwnerOrSuperuser(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.ErrorContains(t, postgres.NewStore(pool).CheckRole(t.Context()), "is a superuser")
	require.NoError(t, postgres.NewStore(pgtest.AsServer(t, pool)).CheckRole(t.Context()))
	require.ErrorIs(t, postgres.GrantServer(t.Context(), pool.Config().ConnString(), "nobody_at_all"), postgres.ErrNoRole)
}

// tables is all that holds rows of namespaces.
var tables = []string{"namespace", "queue", "cursor", "cursor_skip", "job", "job_version", "run", "run_history", "dead_letter", "api_key", "audit_log", "job_label", "answer", "operation", "secret", "hold", "lane", "queue_rate", "run_output", "run_output_live"}

// TestNoRowCrossesANamespace: statements without any condition see and change
// the rows of the transaction's namespace alone.
func TestNoRowCrossesANamespace(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	pool := pgtest.AsServer(t, b.pool)
	store := postgres.NewStore(pool)
	ctx := t.Context()
	one, two := b.namespace, uuid.New()
	b.exec(`DELETE FROM namespace`)
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'one'), ($2, 'two')`, one, two)
	rows := map[uuid.UUID]int{one: 1, two: 3}
	for ns, n := range rows {
		for i := range n {
			d := definition(fmt.Sprintf("job-%d", i), everySecond)
			d.Labels = map[string]string{"team": "x"}
			_, err := store.CreateJob(ctx, postgres.CreateInput{Namespace: ns, Definition: d, Actor: "test"})
			require.NoError(t, err)
		}
		_, _, err := store.CreateKey(ctx, job.KeyOrder{Namespace: ns, Name: "k", Role: job.Viewer, Actor: "test"})
		require.NoError(t, err)
	}
	b.exec(`INSERT INTO cursor_skip SELECT partition, id, now(), now(), 1, 'missed', now() FROM cursor`)
	b.exec(`INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, queue_id)
		SELECT partition, id, now(), 0, now(), 1, 'attempts', '', queue_id FROM job`)
	b.exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id, woken)
		SELECT partition, 99, 1, id, now(), now(), 0, 0, 0, 0, 0, queue_id, true FROM job`)
	b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id)
		SELECT partition, 0, 1, id, now(), now(), now(), 1, 1, 0, 0, queue_id FROM job`)
	b.exec(`INSERT INTO run_output SELECT partition, 0, 1, id, now(), now(), namespace_id, 1, 'x' FROM job`)
	b.exec(`INSERT INTO run_output_live SELECT partition, 0, 1, id, now(), namespace_id, 1, 'x' FROM job`)
	b.exec(`INSERT INTO operation (id, namespace_id, kind, filter, until, rate, state, count, actor, created_at, next_at)
		SELECT gen_random_uuid(), id, 'discard', '{}', now(), 1, 'running', 1, 'test', now(), now() FROM namespace`)
	b.exec(`INSERT INTO secret SELECT id, 'a', 1, '', NULL, NULL, now(), now(), '' FROM namespace`)
	b.exec(`INSERT INTO answer (namespace_id, key, part, request, made_at) SELECT id, 'k', 0, '', now() FROM namespace`)
	b.exec(`INSERT INTO hold SELECT 1, queue_id, 1, queue_id, partition, job_id, due_at, seq FROM run WHERE seq = 99 ON CONFLICT DO NOTHING`)
	b.exec(`INSERT INTO lane SELECT id, gen_random_uuid(), 1, 0, now(), now() FROM queue`)
	b.exec(`INSERT INTO queue_rate SELECT id, 1, now() FROM queue`)
	count := func(tx pgx.Tx, table string) (n int) {
		require.NoError(t, tx.QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&n))
		return n
	}
	all := map[string]int{}
	inTx(t, pool, "", func(tx pgx.Tx) {
		for _, table := range tables {
			all[table] = count(tx, table)
			require.Positive(t, all[table], table)
		}
	})
	seen := map[string]int{}
	for ns := range rows {
		inTx(t, pool, ns.String(), func(tx pgx.Tx) {
			for _, table := range tables {
				n := count(tx, table)
				require.Positive(t, n, table)
				require.Less(t, n, all[table], table)
				seen[table] += n
			}
		})
	}
	require.Equal(t, all, seen, "each row is somebody's, and nobody else's")
	inTx(t, pool, "none", func(tx pgx.Tx) {
		for _, table := range tables {
			require.Zero(t, count(tx, table), "%s, without a namespace", table)
		}
	})
	for _, sql := range []string{
		`UPDATE job SET name = name || 'x'`, `DELETE FROM run`, `DELETE FROM dead_letter`, `UPDATE queue SET paused = true`, `UPDATE api_key SET revoked_at = now()`,
	} {
		inTx(t, pool, one.String(), func(tx pgx.Tx) {
			tag, err := tx.Exec(ctx, sql)
			require.NoError(t, err)
			require.LessOrEqual(t, tag.RowsAffected(), int64(1+60), sql)
			require.Positive(t, tag.RowsAffected(), sql)
		})
	}
	inTx(t, pool, one.String(), func(tx pgx.Tx) {
		_, err := tx.Exec(ctx, `INSERT INTO queue (namespace_id, name) VALUES ($1, 'theirs')`, two)
		require.ErrorContains(t, err, "row-level security")
	})
	inTx(t, pool, one.String(), func(tx pgx.Tx) {
		_, err := tx.Exec(ctx, `UPDATE job SET namespace_id = $1`, two)
		require.ErrorContains(t, err, "row-level security")
	})
	inTx(t, pool, one.String(), func(tx pgx.Tx) {
		_, err := tx.Exec(ctx, `DELETE FROM run_history`)
		require.ErrorContains(t, err, "permission denied", "the ledger is not the users' to change")
	})
}

// inTx runs work as the API does in a namespace, "none" without one, "" as the
// engine; and takes it back.
func inTx(t *testing.T, pool *pgxpool.Pool, namespace string, work func(pgx.Tx)) {
	t.Helper()
	ctx := context.Background()
	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(ctx)) }()
	if namespace != "" {
		_, err = tx.Exec(ctx, `SELECT set_config('role', 'belfry_api', true)`)
		require.NoError(t, err)
	}
	if namespace != "" && namespace != "none" {
		_, err = tx.Exec(ctx, `SELECT set_config('belfry.namespace', $1, true)`, namespace)
		require.NoError(t, err)
	}
	work(tx)
}
