package postgres

import (
	"context"
	_ "embed" // for objects
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/store"
)

// inspectServer needs no schema. Statistics of other roles are hidden from a role without pg_read_all_stats. The
// timeouts that are missing are those of a statement outside a transaction: behind a pooler, the role has to set them. A
// Unix socket has no tcp_user_timeout. Those that are too short are what connections begin with.
const inspectServer = `
SELECT now(), current_setting('server_version_num')::int, current_user,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
       current_setting('fsync')::bool, current_setting('full_page_writes')::bool,
       current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_replication),
       (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
       current_setting('archive_mode') <> 'off',
       coalesce((SELECT last_failed_wal FROM pg_stat_archiver
                 WHERE current_setting('archive_mode') <> 'off'
                   AND last_failed_time > coalesce(last_archived_time, '-infinity')), ''),
       coalesce((SELECT extract(epoch FROM now() - min(xact_start)) FROM pg_stat_activity
                 WHERE datname = current_database() AND backend_type = 'client backend'), 0)::float8,
       coalesce((SELECT extract(epoch FROM now() - min(prepared)) FROM pg_prepared_xacts
                 WHERE database = current_database()), 0)::float8,
       (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database())::bigint,
       ARRAY(SELECT name FROM unnest(ARRAY['statement_timeout', 'idle_in_transaction_session_timeout',
                                           'tcp_user_timeout']) WITH ORDINALITY t(name, n)
             WHERE current_setting(name) = '0' AND (name <> 'tcp_user_timeout' OR inet_server_addr() IS NOT NULL)
             ORDER BY n),
       pg_database_size(current_database()),
       NOT (current_setting('autovacuum')::bool AND current_setting('track_counts')::bool),
       ARRAY(SELECT s.name FROM pg_settings s JOIN (VALUES
                 ('statement_timeout', 60000), ('transaction_timeout', 60000), ('lock_timeout', 60000),
                 ('idle_in_transaction_session_timeout', 5000)) node (name, ms) USING (name)
             WHERE CASE s.vartype WHEN 'integer' THEN s.reset_val::bigint BETWEEN 1 AND node.ms - 1 END ORDER BY 1)`

// inspectSlots asks for the WAL that slots keep; on a standby it cannot be computed.
const inspectSlots = `
SELECT slot_name::text, active,
       CASE WHEN pg_is_in_recovery() THEN 0
            ELSE coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0) END::bigint
FROM pg_replication_slots ORDER BY slot_name`

// probeDisk writes 16 MiB to a temporary file where the database is, which PostgreSQL removes when the statement ends.
const probeDisk = `
WITH w AS MATERIALIZED (SELECT repeat('x', 8192) AS x FROM generate_series(1, 2048)) SELECT count(x) FROM w`

// tempFileLimit is the SQLSTATE of a statement that needs more temporary space than temp_file_limit allows.
const tempFileLimit = "53400"

// PostgreSQL 17 moved the counters of checkpoints.
const (
	checkpointsBefore17 = `SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter`
	checkpointsSince17  = `SELECT num_timed, num_requested FROM pg_stat_checkpointer`
)

// Inspect reads what doctor judges: what PostgreSQL says about itself and, if there is a schema, what the tables say.
func (a *Admin) Inspect(ctx context.Context) (d doctor.Database, c *doctor.Cluster, err error) {
	if err := a.inspectServer(ctx, &d); err != nil {
		return d, nil, fmt.Errorf("inspect the database: %w", err)
	}
	if d.Schema, err = a.SchemaVersion(ctx); err != nil {
		if undefined(err) { // never migrated
			return d, nil, nil
		}
		return d, nil, err
	}
	if err := a.db.QueryRow(ctx, unreleased).Scan(&d.SchemaUnreleased); err != nil {
		return d, nil, fmt.Errorf("read the schema: %w", err)
	}
	if err := a.db.QueryRow(ctx, oldestSchema).Scan(&d.SchemaOldest); err != nil && !undefined(err) {
		return d, nil, fmt.Errorf("read the oldest schema that nodes must know: %w", err)
	}
	if err := a.CheckRole(ctx); err != nil {
		d.RoleProblem = err.Error()
	}
	if c, err = a.inspectCluster(ctx); undefined(err) {
		return d, nil, nil // the schema is too old
	} else if err != nil {
		return d, nil, fmt.Errorf("inspect the cluster: %w", err)
	}
	return d, c, nil
}

// undefined returns whether a statement names a table or a column that is not there.
func undefined(err error) bool { return store.Code(err) == "42P01" || store.Code(err) == "42703" }

func (a *Admin) inspectServer(ctx context.Context, d *doctor.Database) error {
	var open, prepared float64 // seconds
	err := a.db.QueryRow(ctx, inspectServer).Scan(
		&d.Now, &d.Version, &d.Role, &d.SeesAll, &d.MaxConnections, &d.Fsync, &d.FullPageWrites,
		&d.SynchronousCommit, &d.SyncNames, &d.Standbys, &d.SyncStandbys, &d.Archiving, &d.ArchiveFailing,
		&open, &prepared, &d.WraparoundAge, &d.Unbounded, &d.Bytes, &d.AutovacuumOff, &d.Short,
	)
	if err != nil {
		return err
	}
	d.Pooled = a.db.Pooled()
	d.OldestTransaction = time.Duration(open * float64(time.Second))
	d.OldestPrepared = time.Duration(prepared * float64(time.Second))
	checkpoints := checkpointsBefore17
	if d.Version >= 170_000 {
		checkpoints = checkpointsSince17
	}
	if err := a.db.QueryRow(ctx, checkpoints).Scan(&d.CheckpointsTimed, &d.CheckpointsForced); err != nil {
		return err
	}
	rows, err := a.db.Query(ctx, inspectSlots)
	if err != nil {
		return err
	}
	if d.Slots, err = pgx.CollectRows(rows, pgx.RowToStructByPos[doctor.Slot]); err != nil {
		return err
	}
	var batch pgx.Batch
	batch.Queue(`SELECT set_config('work_mem', '64kB', true), set_config('temp_tablespaces', '', true)`)
	batch.Queue(probeDisk)
	if err = a.db.SendBatch(ctx, &batch).Close(); Refusals[store.Code(err)] != "" {
		d.CannotWrite = err.Error()
		return nil
	} else if store.Code(err) == tempFileLimit {
		return nil
	}
	return err
}

// inspectCluster is bounded whatever the number of jobs: it counts by indexes, and at most 1,000 of a kind.
const inspectCluster = `
SELECT (SELECT trusted_at FROM cluster),
       (SELECT count(*) FROM partition),
       (SELECT count(*) FROM partition p
        WHERE NOT EXISTS (SELECT FROM session WHERE id = p.owner AND expires_at > now())),
       (SELECT count(*) FROM (SELECT FROM cursor WHERE broken_at IS NOT NULL LIMIT 1000) b),
       coalesce((SELECT problem FROM cursor WHERE broken_at IS NOT NULL ORDER BY broken_at LIMIT 1), ''),
       EXISTS (SELECT FROM pg_class WHERE relname = 'job_name_trigram' AND relkind = 'i'),
       (SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'run_history'::regclass
          AND c.relname > 'run_history_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')),
       EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = 'run_history'::regclass AND partdefid <> 0),
       ARRAY(SELECT n.name || '/' || q.name FROM queue q JOIN namespace n ON n.id = q.namespace_id
             WHERE NOT q.paused
               AND EXISTS (SELECT FROM run WHERE queue_id = q.id AND handler IS NOT NULL AND state = 0 /* pending */
                             AND run_at < now() - interval '1 min')
               AND NOT EXISTS (SELECT FROM session WHERE queue_id = q.id AND expires_at > now())
             ORDER BY 1 LIMIT 10),
       (SELECT count(*) FROM namespace n, LATERAL (
            SELECT FROM job WHERE namespace_id = n.id AND state = 2 /* paused */
                              AND paused_at < now() - interval '7 days' LIMIT 1000) j),
       ARRAY(SELECT n.name || '/' || q.name FROM queue q JOIN namespace n ON n.id = q.namespace_id
             WHERE q.paused AND q.paused_at < now() - interval '7 days' ORDER BY 1 LIMIT 10),
       ARRAY(SELECT n.name || '/' || k.name FROM api_key k JOIN namespace n ON n.id = k.namespace_id
             WHERE k.revoked_at IS NULL AND k.expires_at BETWEEN now() AND now() + interval '7 days'
             ORDER BY 1 LIMIT 10),
       coalesce(f.timeline, 0), f.noticed_at, (SELECT required FROM archive_setting), ` + archiveBehind + `,
       (SELECT backed_up_at FROM cluster WHERE only_row), (SELECT held_until > '-infinity' FROM cluster WHERE only_row),
       coalesce((SELECT sealed IS NULL FROM cluster_key ORDER BY use_at DESC LIMIT 1), false),
       ARRAY(SELECT c.relname::text FROM pg_class c, pg_options_to_table(c.reloptions) o
             WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'job'::regclass)
               AND o.option_name = 'autovacuum_enabled' AND NOT o.option_value::bool ORDER BY 1 LIMIT 10)
FROM (SELECT) one LEFT JOIN (
    SELECT timeline, noticed_at FROM failover
    WHERE (lost OR NOT synchronous) AND noticed_at > now() - interval '7 days'
    ORDER BY noticed_at DESC LIMIT 1) f ON true`

// inspectKinds finds kinds of targets that active jobs have and no node delivers to. It steps from one kind of a
// namespace to the next in an index, and looks at the newest 1,000 jobs of each.
const inspectKinds = `
WITH RECURSIVE used AS (
    SELECT id, name, (SELECT min(target_kind) FROM job WHERE namespace_id = n.id) AS kind FROM namespace n
    UNION ALL
    SELECT id, name, (SELECT min(target_kind) FROM job WHERE namespace_id = u.id AND target_kind > u.kind)
    FROM used u WHERE kind IS NOT NULL)
SELECT name || '/' || kind FROM used u
WHERE NOT EXISTS (SELECT FROM session
                  WHERE queue_id IS NULL /* nodes */ AND expires_at > now() AND info -> 'kinds' ? u.kind)
  AND EXISTS (SELECT FROM (SELECT state FROM job WHERE namespace_id = u.id AND target_kind = u.kind
                           ORDER BY id DESC LIMIT 1000) j
              WHERE state = 1 /* active */)
ORDER BY 1 LIMIT 10`

// inspectFindings looks at the newest $1 open findings of the audit. A missing occurrence that was backfilled since is
// in the ledger, and its finding is not open.
const inspectFindings = `
SELECT count(*) OVER (), coalesce(n.name, ''), f.job_id, f.due_at, f.kind, f.found_at
FROM (
    SELECT * FROM audit_finding a
    WHERE a.kind <> 'missing' OR NOT EXISTS (
        SELECT FROM run WHERE partition = a.partition AND job_id = a.job_id AND due_at = a.due_at
        UNION ALL
        SELECT FROM run_history WHERE job_id = a.job_id AND due_at = a.due_at)
    ORDER BY a.found_at DESC LIMIT $1) f
LEFT JOIN namespace n ON n.id = f.namespace_id
ORDER BY f.found_at DESC LIMIT 1`

// inspectObjects lists what the migrations created besides tables and functions, each with the statement that creates it.
// job_name_trigram needs an extension that may be missing.
const inspectObjects = `
WITH t AS (SELECT oid, relname, relrowsecurity AND relforcerowsecurity AS secured FROM pg_class
           WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'job'::regclass)
             AND relkind IN ('r', 'p') AND NOT relispartition AND NOT starts_with(relname, 'belfry_migration'))
SELECT 'index ' || c.relname AS name, CASE
           WHEN k.oid IS NULL THEN replace(pg_get_indexdef(i.indexrelid, 0, true), ' ON ONLY ', ' ON ')
           ELSE format('ALTER TABLE %I ADD CONSTRAINT %I %s', t.relname, k.conname, pg_get_constraintdef(k.oid)) END
FROM t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class c ON c.oid = i.indexrelid
LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')
WHERE i.indisvalid AND c.relname <> 'job_name_trigram'
UNION ALL
SELECT 'row-level security of ' || relname,
       format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', relname)
FROM t WHERE secured
UNION ALL
SELECT 'policy ' || p.policyname || ' of ' || t.relname, regexp_replace(
           format('CREATE POLICY %I ON %I FOR %s TO %s USING (%s)', p.policyname, t.relname, p.cmd,
                  array_to_string(p.roles, ', '), p.qual) || coalesce(' WITH CHECK (' || p.with_check || ')', ''),
           '\s+', ' ', 'g')
FROM t JOIN pg_policies p ON p.tablename = t.relname
ORDER BY 1`

// objects is the result of inspectObjects in a database with the schema of this program. make generate/schema writes it.
//
//go:embed objects.txt
var objects string

// readObjects returns the objects of the database, a name and a statement in each line.
func (a *Admin) readObjects(ctx context.Context) ([]string, error) {
	rows, err := a.db.Query(ctx, inspectObjects)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var name, statement string
		err := row.Scan(&name, &statement)
		return name + ": " + statement, err
	})
}

// missingObjects returns the objects that the migrations created and that are not there any more.
func (a *Admin) missingObjects(ctx context.Context) (out []doctor.Object, err error) {
	lines, err := a.readObjects(ctx)
	exists := map[string]bool{}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ": ")
		exists[name] = true
	}
	for line := range strings.Lines(objects) {
		name, statement, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if !exists[name] {
			out = append(out, doctor.Object{Name: name, Statement: statement})
		}
	}
	return out, err
}

func (a *Admin) inspectCluster(ctx context.Context) (*doctor.Cluster, error) {
	c := &doctor.Cluster{}
	var trusted *time.Time
	if err := a.db.QueryRow(ctx, inspectCluster).Scan(
		&trusted, &c.Partitions, &c.Unowned, &c.BrokenSchedules, &c.FirstProblem, &c.Trigrams, &c.DaysAhead, &c.DefaultDay,
		&c.Starved, &c.PausedJobs, &c.PausedQueues, &c.ExpiringKeys, &c.LostTimeline, &c.LostUntil,
		&c.ArchiveRequired, &c.ArchiveBehind, &c.BackedUpAt, &c.Held, &c.ClearReportKey, &c.Unvacuumed,
	); err != nil {
		return nil, err
	}
	c.TrustedAt = store.OrZero(trusted)
	n := &c.Newest
	err := a.db.QueryRow(ctx, inspectFindings, doctor.MaxFindings).Scan(
		&c.Findings, &n.Namespace, store.Raw(&n.Job), &n.DueAt, &n.Kind, &n.FoundAt)
	if err != nil && !store.NoRows(err) {
		return nil, err
	}
	rows, err := a.db.Query(ctx, inspectKinds)
	if err != nil {
		return nil, err
	}
	if c.Undelivered, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, err
	}
	rows, err = a.db.Query(ctx, `SELECT relname::text, n_live_tup, n_dead_tup FROM pg_stat_user_tables
		WHERE relid IN ('run'::regclass, 'cursor'::regclass, 'session'::regclass) ORDER BY relname`)
	if err != nil {
		return nil, err
	}
	if c.Tables, err = pgx.CollectRows(rows, pgx.RowToStructByPos[doctor.Table]); err != nil {
		return nil, err
	}
	if c.Missing, err = a.missingObjects(ctx); err != nil {
		return nil, err
	}
	c.Nodes, err = a.Nodes(ctx)
	return c, err
}

// Nodes returns what the live nodes report about themselves.
func (a *Admin) Nodes(ctx context.Context) ([]doctor.Node, error) {
	rows, err := a.db.Query(ctx, `SELECT name, started_at, info FROM session
		WHERE queue_id IS NULL /* nodes */ AND expires_at > now() ORDER BY name, id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (n doctor.Node, err error) {
		var name string
		var started time.Time
		var info []byte
		if err := row.Scan(&name, &started, &info); err != nil {
			return n, err
		}
		if info != nil {
			err = json.Unmarshal(info, &n)
		}
		n.Name, n.StartedAt = name, started
		return n, err
	})
}
