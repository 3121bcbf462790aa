package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

// shared are the tables that belong to no namespace. All may read them, and they contain nothing that a user wrote.
var shared = []string{"archive_day", "cluster", "failover", "partition"}

// uncovered lists what a transaction of a namespace could reach although no policy restricts it. It reads the
// catalogue, so it also covers future migrations.
const uncovered = `
WITH reachable AS (
    SELECT c.oid, c.relname, c.relkind, c.relrowsecurity AND c.relforcerowsecurity AS forced,
           coalesce(c.reloptions::text, '') LIKE '%security_invoker=true%' AS invoker
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND (has_table_privilege('belfry_api', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
           OR has_any_column_privilege('belfry_api', c.oid, 'SELECT, INSERT, UPDATE'))
), applied AS (
    SELECT r.relname, p.polname, p.polcmd, pg_get_expr(p.polqual, p.polrelid) AS visible,
           pg_get_expr(coalesce(p.polwithcheck, p.polqual), p.polrelid) AS written,
           r.relname IN ('run', 'run_history', 'permit') AS of_queue -- what workers change in their own queue
    FROM reachable r JOIN pg_policy p ON p.polrelid = r.oid
    WHERE (p.polroles = '{0}' OR 'belfry_api'::regrole = ANY (p.polroles)) AND r.relname <> ALL ($1::text[])
)
SELECT relname || ' has no forced row-level security' FROM reachable
WHERE relkind IN ('r', 'p') AND NOT forced
UNION ALL
SELECT relname || ' is a view with the rights of its owner' FROM reachable
WHERE relkind IN ('v', 'm', 'f') AND NOT (relkind = 'v' AND invoker)
UNION ALL
SELECT relname || ' has a policy that lets everything through: ' || polname FROM applied
WHERE visible = 'true'
UNION ALL
SELECT relname || ' has a policy that does not ask for the namespace: ' || polname FROM applied
WHERE visible NOT LIKE '%belfry_namespace()%' AND NOT (visible LIKE '%queue_id = ANY%belfry_queues()%' AND of_queue)
UNION ALL
SELECT relname || ' has a policy that lets anything be written: ' || polname FROM applied
WHERE polcmd <> 'r' AND written NOT LIKE '%belfry_namespace()%'
  AND NOT (written LIKE '%queue_id = ANY%belfry_queues()%' AND of_queue)
UNION ALL
SELECT relname || ' has rows that TestNoRowCrossesANamespace does not look at' FROM reachable
WHERE relkind IN ('r', 'p') AND relname <> ALL ($1::text[] || $2::text[])
UNION ALL
SELECT p.proname || ' runs with the rights of its owner'
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = current_schema() AND p.prosecdef AND has_function_privilege('belfry_api', p.oid, 'EXECUTE')
UNION ALL
SELECT p.proname || ' finds temporary tables of its caller first'
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = current_schema() AND (p.prosecdef OR p.proconfig::text LIKE '%search_path=%')
      AND NOT coalesce(p.proconfig::text, '') ~ 'search_path=[^"]*, pg_temp"'
UNION ALL
SELECT relname || ' can be changed by a server, which must not' FROM pg_class
WHERE oid IN ('namespace'::regclass, 'api_key'::regclass)
      AND has_table_privilege('belfry_engine', oid, 'INSERT, UPDATE, DELETE')
   OR oid = 'login_session'::regclass AND has_table_privilege('belfry_engine', oid, 'INSERT, UPDATE')
   OR oid = 'audit_log'::regclass
      AND (has_table_privilege('belfry_engine', oid, 'UPDATE, DELETE')
           OR has_table_privilege('belfry_api', oid, 'UPDATE, DELETE'))
UNION ALL
SELECT rolname || ' is no role without rights of its own' FROM pg_roles
WHERE rolname IN ('belfry_api', 'belfry_engine') AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcanlogin)
ORDER BY 1`

// TestNothingIsUncovered (S3): a policy of the namespace restricts each table, view and function that a transaction of
// a namespace can reach.
func TestNothingIsUncovered(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	find := func() []string {
		rows, err := pool.Query(t.Context(), uncovered, shared, tables)
		require.NoError(t, err)
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return found
	}
	require.Empty(t, find())

	// And it finds what a migration may forget.
	for want, sql := range map[string]string{
		"forgotten has no forced row-level security": `
			CREATE TABLE forgotten (x int); GRANT SELECT ON forgotten TO belfry_api`,
		"job has no forced row-level security": `
			ALTER TABLE job NO FORCE ROW LEVEL SECURITY`,
		"run has no forced row-level security": `
			ALTER TABLE run DISABLE ROW LEVEL SECURITY`,
		"jobs is a view with the rights of its owner": `
			CREATE VIEW jobs AS SELECT * FROM job; GRANT SELECT ON jobs TO belfry_api`,
		"queue has a policy that lets everything through: open": `
			CREATE POLICY open ON queue TO belfry_api USING (true)`,
		"queue has a policy that does not ask for the namespace: open": `
			CREATE POLICY open ON queue USING (id > 0)`,
		"session has a policy that does not ask for the namespace: open": `
			CREATE POLICY open ON session TO belfry_api USING (queue_id = ANY (belfry_queues()))`,
		"queue_rate has a policy that lets anything be written: open": `
			CREATE POLICY open ON queue_rate TO belfry_api USING (queue_id = ANY (belfry_queues()))`,
		"permit has a policy that does not ask for the namespace: open": `
			CREATE POLICY open ON permit TO belfry_api USING (belfry_queues() IS NOT NULL)`,
		"secret has a policy that lets anything be written: open": `
			CREATE POLICY open ON secret TO belfry_api USING (namespace_id = belfry_namespace())
			WITH CHECK (true)`,
		"forgotten has rows that TestNoRowCrossesANamespace does not look at": `
			CREATE TABLE forgotten (x int); GRANT SELECT ON forgotten TO PUBLIC`,
		"help runs with the rights of its owner": `
			CREATE FUNCTION help() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'`,
		"help finds temporary tables of its caller first": `
			CREATE FUNCTION help() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'`,
		"called finds temporary tables of its caller first": `
			CREATE FUNCTION called() RETURNS int LANGUAGE sql SET search_path FROM CURRENT AS 'SELECT 1'`,
		"audit_log can be changed by a server, which must not": `
			GRANT DELETE ON audit_log TO belfry_api`,
		"api_key can be changed by a server, which must not": `
			GRANT INSERT ON api_key TO belfry_engine`,
		"login_session can be changed by a server, which must not": `
			GRANT UPDATE ON login_session TO belfry_engine`,
		"run_history_today has no forced row-level security": `
			CREATE TABLE run_history_today PARTITION OF run_history
			FOR VALUES FROM ('2001-01-01') TO ('2001-01-02'); GRANT SELECT ON run_history_today TO belfry_api`,
		"columns has rows that TestNoRowCrossesANamespace does not look at": `
			CREATE TABLE columns (x int); GRANT SELECT (x) ON columns TO belfry_api`,
	} {
		undo(t, pool, func(tx pgx.Tx) {
			_, err := tx.Exec(t.Context(), sql)
			require.NoError(t, err)
			rows, err := tx.Query(t.Context(), uncovered, shared, tables)
			require.NoError(t, err)
			found, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.Contains(t, found, want)
		})
	}
}

// undo runs work in a transaction and rolls it back.
func undo(t *testing.T, pool *pgxpool.Pool, work func(pgx.Tx)) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	work(tx)
}
