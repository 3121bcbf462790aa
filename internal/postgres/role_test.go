package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

func TestAServerDoesNotWorkAsOwnerOrSuperuser(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.ErrorContains(t, pgtest.NewStore(pool).CheckRole(t.Context()), "is a superuser")
	require.NoError(t, pgtest.NewStore(pgtest.AsServer(t, pool)).CheckRole(t.Context()))
	err := postgres.GrantServer(t.Context(), pool.Config().ConnString(), postgres.GrantParams{Role: "nobody_at_all"})
	require.ErrorIs(t, err, postgres.ErrNoRole)
}

// tables are all tables with rows of namespaces. Sessions of workers belong to a namespace, sessions of nodes to none:
// see TestSessionsOfOthers.
var tables = []string{
	"namespace", "session", "queue", "cursor", "cursor_skip", "job", "job_version", "run", "run_history", "dead_letter",
	"api_key", "audit_log", "job_label", "idempotent_response", "operation", "operation_item", "operation_version",
	"secret", "broker", "permit", "queue_waiter", "queue_rate", "run_output", "run_output_live", "audit_finding", "job_pause_end",
	"login_session", "stat_minute", "namespace_usage", "namespace_rate", "namespace_runs",
}

// TestNoRowCrossesANamespace: statements without any condition see and change only rows of the transaction's namespace.
func TestNoRowCrossesANamespace(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	pool := pgtest.AsServer(t, b.pool)
	store := pgtest.NewStore(pool)
	ctx := t.Context()
	one, two := b.namespace, uuid.New()
	b.exec(`DELETE FROM namespace`)
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'one'), ($2, 'two')`, one, two)
	rows := map[uuid.UUID]int{one: 1, two: 3}
	for ns, n := range rows {
		for i := range n {
			d := definition(fmt.Sprintf("job-%d", i), everySecond)
			d.Labels = map[string]string{"team": "x"}
			_, err := store.CreateJob(ctx, job.CreateParams{Namespace: ns, Definition: d, Actor: "test"})
			require.NoError(t, err)
		}
		_, _, err := store.CreateKey(
			ctx, access.KeyParams{Namespace: ns, Name: "k", Role: access.Viewer, Actor: "test"},
		)
		require.NoError(t, err)
	}
	b.exec(`INSERT INTO cursor_skip SELECT partition, id, now(), now(), 1, 'missed', now(), namespace_id FROM cursor`)
	b.exec(`INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, queue_id, status,
		cause)
		SELECT partition, id, now(), 0, now(), 1, 'attempts', '', queue_id, 0, 'attempts' FROM job`)
	b.exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
		queue_id, needs_sweep)
		SELECT partition, 99, 1, id, now(), now(), 0, 0, 0, 0, 0, queue_id, true FROM job`)
	b.exec(
		`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
			status, queue_id)
		SELECT partition, 0, 1, id, now(), now(), now(), 1, 1, 0, 0, queue_id FROM job`,
	)
	b.exec(`INSERT INTO run_output SELECT partition, 0, 1, id, now(), now(), namespace_id, 1, 'x' FROM job`)
	b.exec(`INSERT INTO run_output_live SELECT partition, 0, 1, id, now(), namespace_id, 1, 'x' FROM job`)
	b.exec(`INSERT INTO operation (id, namespace_id, kind, filter, failed_until, rate, state, count, actor,
		created_at, next_at)
		SELECT gen_random_uuid(), id, 'discard', '{}', now(), 1, 'running', 1, 'test', now(), now() FROM namespace`)
	b.exec(`INSERT INTO operation_item SELECT id, 1, namespace_id, now(), 'job_x', 'x', 'test' FROM operation`)
	b.exec(`INSERT INTO operation_version SELECT id, id, 1, namespace_id FROM operation`)
	b.exec(`INSERT INTO audit_finding SELECT partition, id, now(), 'missing', namespace_id, now() FROM job`)
	b.exec(`INSERT INTO job_pause_end SELECT partition, now(), id, namespace_id FROM job`)
	b.exec(`INSERT INTO login_session SELECT gen_random_uuid(), namespace_id, id, hash, '', now(), now(), now()
		FROM api_key`)
	b.exec(`INSERT INTO stat_minute
		SELECT id, 0, now(), gen_random_uuid(), 1, 0, 0, 0, 0, 0, 0, 0, '{}', NULL, 0, 0 FROM namespace`)
	b.exec(`INSERT INTO secret SELECT id, 'a', 1, '', NULL, NULL, now(), now(), '' FROM namespace`)
	b.exec(`INSERT INTO broker SELECT id::text, 'nats', '{}', NULL, ARRAY[id], now() FROM namespace`)
	b.exec(`INSERT INTO idempotent_response (namespace_id, key, part, request_hash, created_at)
		SELECT id, 'k', 0, '', now() FROM namespace`)
	b.exec(`INSERT INTO permit (limit_kind, limit_id, number, queue_id, partition, job_id, due_at, seq)
		SELECT 1, queue_id, 1, queue_id, partition, job_id, due_at, seq FROM run WHERE seq = 99 ON CONFLICT DO NOTHING`)
	b.exec(`INSERT INTO queue_waiter (queue_id, session_id, waiting, priority, run_at, reported_at)
		SELECT id, gen_random_uuid(), 1, 0, now(), now() FROM queue`)
	b.exec(`INSERT INTO queue_rate SELECT id, 1, now() FROM queue`)
	b.exec(`INSERT INTO namespace_rate SELECT id, 1, now() FROM namespace`)
	b.exec(`INSERT INTO namespace_runs SELECT id, 1, false, now(), '0 s' FROM namespace`)
	b.exec(`INSERT INTO session (id, name, started_at, expires_at, may_own, namespace_id, queue_id)
		SELECT gen_random_uuid(), 'w', now(), now() + interval '1 h', false, namespace_id, id FROM queue`)
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
	seen, changed := map[string]int{}, map[string]bool{}
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
	for _, table := range tables {
		for _, sql := range []string{`DELETE FROM ` + table, `UPDATE ` + table + `
			SET ` + b.columnOf(table) + ` = ` + b.columnOf(table)} {
			inTx(t, pool, one.String(), func(tx pgx.Tx) {
				mine := count(tx, table)
				tag, err := tx.Exec(ctx, sql)
				if err != nil {
					require.ErrorContains(t, err, "permission denied", sql)
					return
				}
				changed[table] = true
				require.Equal(t, int64(mine), tag.RowsAffected(), sql)
				if tag.Delete() {
					_, err = tx.Exec(ctx, `SET LOCAL ROLE belfry_engine`)
					require.NoError(t, err)
					require.Equal(t, all[table]-mine, count(tx, table), "%s: what is theirs is there", sql)
				}
			})
		}
	}
	require.Subset(
		t, slices.Collect(maps.Keys(changed)),
		[]string{"job", "run", "queue", "api_key", "secret", "dead_letter", "permit"},
		"some of them can be changed at all",
	)
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
	inTx(t, pool, one.String(), func(tx pgx.Tx) {
		_, err := tx.Exec(ctx, `SELECT secret FROM cluster_key`)
		require.ErrorContains(t, err, "permission denied", "nobody signs tokens for reports but the engine")
	})
}

// columnOf returns a column of a table that a statement can set to itself.
func (b *jobs) columnOf(table string) (name string) {
	b.t.Helper()
	require.NoError(
		b.t,
		b.pool.QueryRow(b.t.Context(), `SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0
			AND NOT attisdropped AND attidentity = '' ORDER BY attnum LIMIT 1`, table).
			Scan(&name),
	)
	return name
}

// TestSessionsOfOthers: a namespace sees the nodes, which work for all, and its own workers. It can end its own workers
// only, and cannot create a worker for another namespace.
func TestSessionsOfOthers(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	pool := pgtest.AsServer(t, b.pool)
	store := pgtest.NewStore(pool)
	ctx, two := t.Context(), uuid.New()
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'two')`, two)
	_, err := store.Register(ctx, uuid.New(), "node", time.Hour)
	require.NoError(t, err)
	for namespace, name := range map[uuid.UUID]string{b.namespace: "mine", two: "theirs"} {
		_, _, err := store.OpenSession(
			ctx, job.SessionParams{Namespace: namespace, Queue: "q", Make: true, Name: name, TTL: time.Hour},
		)
		require.NoError(t, err)
	}
	names := func(tx pgx.Tx) []string {
		rows, err := tx.Query(ctx, `SELECT name FROM session ORDER BY name`)
		require.NoError(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return got
	}
	inTx(t, pool, b.namespace.String(), func(tx pgx.Tx) { require.Equal(t, []string{"mine", "node"}, names(tx)) })
	inTx(t, pool, two.String(), func(tx pgx.Tx) { require.Equal(t, []string{"node", "theirs"}, names(tx)) })
	inTx(t, pool, "none", func(tx pgx.Tx) { require.Equal(t, []string{"node"}, names(tx)) })
	inTx(t, pool, b.namespace.String(), func(tx pgx.Tx) {
		rows, err := tx.Query(ctx, `UPDATE session SET expires_at = '-infinity' RETURNING name`)
		require.NoError(t, err)
		ended, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Equal(t, []string{"mine"}, ended)
	})
	for sql, want := range map[string]string{
		`UPDATE session SET name = 'x'`: "permission denied",
		`DELETE FROM session`:           "permission denied",
		`INSERT INTO session (id, name, started_at, expires_at, may_own, namespace_id, queue_id)
			SELECT gen_random_uuid(), 'x', now(), now(), false, '` + two.String() + `', 1`: "row-level security",
		`INSERT INTO session (id, name, started_at, expires_at, may_own)
			SELECT gen_random_uuid(), 'x', now(), now(), true`: "row-level security",
	} {
		inTx(t, pool, b.namespace.String(), func(tx pgx.Tx) {
			_, err := tx.Exec(ctx, sql)
			require.ErrorContains(t, err, want, sql)
		})
	}
}

// inTx runs work as the API does in a namespace ("none": without one) or as the engine (""), and rolls it back.
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
