package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The data of TestListsStayFast. The database generates the rows of each table in the order in which a
// server would have written them, and creates the indexes afterwards, which takes a third of the time.
//
// Half of the jobs match common filters, three match rare ones, and the last tenth match filters for new
// jobs. Nine of ten jobs share one of 60 schedules, and the others have a schedule each. The jobs were
// created within four weeks. One in ten ended runs is of a single job, with failures of each kind.
const (
	loadDays = `
DO $$ DECLARE day date; BEGIN
    FOR day IN SELECT generate_series(
        (now() AT TIME ZONE 'UTC')::date - 9, (now() AT TIME ZONE 'UTC')::date - 2, interval '1 day'
    ) LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF run_history FOR VALUES FROM (%L) TO (%L)',
            'run_history_' || to_char(day, 'YYYYMMDD'), day || ' 00:00+00', day + 1 || ' 00:00+00');
    END LOOP;
END $$`
	loadQueues = `
INSERT INTO queue (namespace_id, name)
SELECT $1, n FROM unnest(ARRAY['half', 'few'] || ARRAY(SELECT 'queue-' || i FROM generate_series(0, 19) i)) n`
	loadJobs = `
CREATE UNLOGGED TABLE load_job AS
SELECT n.*, get_byte(sha256(uuid_send(n.id)), 0)::smallint AS partition,
    (SELECT q.id FROM queue q
     WHERE q.name = CASE WHEN few THEN 'few' WHEN half THEN 'half' ELSE 'queue-' || (n.n / 2) % 20 END) AS queue_id
FROM (
    SELECT n, n IN (1000, $1 / 2, $1 - 1000) AS few, n % 2 = 0 AS half, n > $1 - $1 / 10 AS newest, n % 10 = 3 AS own,
        (lpad(to_hex((extract(epoch FROM now()) * 1000 - 28 * 86400000.0 * (1 - n::float8 / $1))::bigint), 12, '0')
            || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid AS id
    FROM generate_series(1, $1::integer) n
) n`
	loadShared = `
INSERT INTO cursor (partition, namespace_id, key, schedule, missed, next_due_at)
SELECT p, $1, sha256(convert_to('shared ' || m, 'UTF8')), format('{"cron":"%s * * * *"}', m), '{}',
    date_trunc('hour', now()) + interval '1 hour' + interval '1 minute' * m
FROM generate_series(0, 255) p, generate_series(0, 59) m`
	loadOwn = `
INSERT INTO cursor (partition, namespace_id, key, schedule, missed, next_due_at)
SELECT partition, $1, sha256(convert_to('own ' || n, 'UTF8')), '{"every":"1d"}', '{}',
    date_trunc('second', now()) + interval '1 hour' + interval '1 second' * (n::bigint * 7919 % 86400)
FROM load_job WHERE own`
	loadJob = `
INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms,
    timeout_ms, plan_from, created_at, updated_at,
    name, target_kind, target_config, payload, schedule, policy, labels)
SELECT j.partition, j.id, $1, c.id, j.queue_id, 1, CASE WHEN few THEN 3 WHEN half THEN 2 ELSE 1 END, 0, 1, 0,
    30000, now() - interval '1 day', now(), now(),
    CASE WHEN few THEN 'the needle ' WHEN newest THEN 'newest-' WHEN half THEN 'alpha-' ELSE 'beta-' END || 'x' || j.n,
    CASE WHEN few THEN 'few' WHEN half THEN 'http' ELSE 'noop' END, '{}',
    format('{"customer":%s,"note":"%s"}', j.n, repeat('x', $2)),
    CASE WHEN own THEN '{"every":"1d"}' ELSE format('{"cron":"%s * * * *"}', j.n % 60) END, m.policy,
    jsonb_build_object('half', CASE WHEN half THEN 'yes' ELSE 'no' END, 'few', CASE WHEN few THEN 'yes' ELSE 'no' END,
        'newest', CASE WHEN newest THEN 'yes' ELSE 'no' END)
FROM load_job j
JOIN cursor c ON c.partition = j.partition AND c.namespace_id = $1
    AND c.key = sha256(convert_to(CASE WHEN own THEN 'own ' || j.n ELSE 'shared ' || j.n % 60 END, 'UTF8')),
    (SELECT policy FROM job WHERE name = 'model') m
ORDER BY j.n`
	loadLabels = `
INSERT INTO job_label
SELECT j.namespace_id, l.key, l.value, j.id FROM job j, jsonb_each_text(j.labels) l WHERE j.name <> 'model'
ORDER BY 2, 3, 4`
	loadVersion = `
INSERT INTO job_version (partition, job_id, version, actor, definition, created_at, namespace_id, timeout_ms)
SELECT partition, id, 1, 'test', '{"name":"job","schedule":{"cron":"0 * * * *"},"target":{"kind":"noop"}}',
    now() - interval '9 days', $1, 1000
FROM load_job WHERE n % 1000 < 10`
	loadHistory = `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
    status, session_id, queue_id, reason, message)
SELECT j.partition, 0, 1, j.id, r.at, r.at, r.at, r.at + interval '50 ms', r.ended, 1, 0,
    200, '00000000-0000-7000-8000-00000000000a', j.queue_id,
    CASE r.ended WHEN 2 THEN 'attempts' WHEN 3 THEN 'cancelled' WHEN 4 THEN 'overlap' END,
    CASE r.ended WHEN 2 THEN 'answered 503' END
FROM (
    SELECT n, now() - interval '9 days' + interval '9 days' * (n::float8 / $2::int) AS at,
        CASE WHEN n % $3::int = 7 THEN 2 WHEN n % 1000 = 13 THEN 3 WHEN n % 100 = 9 THEN 4 ELSE 1 END AS ended,
        CASE WHEN n % 10 = 0 THEN 1 ELSE ((n::bigint * 7919 + n / 100) % $1::int)::int + 1 END AS job
    FROM generate_series(0, $2::int - 1) n
) r
JOIN load_job j ON j.n = r.job ORDER BY r.n`
	loadDead = `
INSERT INTO dead_letter (partition, job_id, due_at, seq, failed_at, attempt, reason, message, queue_id, status, cause)
SELECT partition, job_id, due_at, seq, ended_at, attempt, reason, 'answered 503', queue_id, 503,
    'answered 503 ' || extract(second FROM due_at)::int % 30
FROM run_history WHERE ended = 2 ON CONFLICT DO NOTHING`
	loadLive = `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
    needs_sweep, claimed_at)
SELECT partition, 0, 1, id, at, at, CASE WHEN n % 50 = 1 THEN 1 ELSE 0 END, CASE WHEN n % 50 = 1 THEN 1 ELSE 0 END,
    0, 0, 1, queue_id, false, CASE WHEN n % 50 = 1 THEN at END
FROM (SELECT *, now() + interval '1 second' * (n % 60) AS at FROM load_job WHERE NOT half AND n / 2 % $1 = 0) j
ON CONFLICT DO NOTHING`
)

// dataSize is how much is loaded.
type dataSize struct {
	jobs, runs int // runs that have ended
	failures   int // one in this many of them failed
	payload    int // bytes
	live       int // one in twice as many jobs has a live run
}

// load fills the database.
func (n *node) load(size dataSize) {
	n.t.Helper()
	n.make(`{"name":"model","schedule":"every 1d","target":{"kind":"noop"}}`)
	conn, err := n.pool.Acquire(n.t.Context())
	require.NoError(n.t, err)
	defer conn.Release()
	l := loader{n.t, conn.Conn()}
	l.exec(`SELECT set_config('synchronous_commit', 'off', false), set_config('work_mem', '256MB', false),
		set_config('maintenance_work_mem', '512MB', false)`)
	l.exec(loadDays)
	l.exec(loadQueues, defaultNamespace)
	l.exec(loadJobs, size.jobs)
	l.exec(`CREATE UNIQUE INDEX ON load_job (n)`)
	l.exec(`ANALYZE load_job`)
	l.bare("cursor", func() {
		l.exec(loadShared, defaultNamespace)
		l.exec(loadOwn, defaultNamespace)
	})
	l.exec(`ANALYZE cursor`)
	l.exec(`ALTER TABLE job DISABLE TRIGGER job_label_insert`)
	l.bare("job", func() { l.exec(loadJob, defaultNamespace, size.payload) })
	l.exec(`ALTER TABLE job ENABLE TRIGGER job_label_insert`)
	l.exec(loadLabels)
	l.exec(loadVersion, defaultNamespace)
	l.bare("run_history", func() { l.exec(loadHistory, size.jobs, size.runs, size.failures) })
	l.exec(loadDead)
	l.exec(loadLive, size.live)
	for _, table := range []string{"cursor", "job", "job_label", "job_version", "run", "run_history", "dead_letter"} {
		l.exec(`VACUUM ANALYZE ` + table)
	}
}

type loader struct {
	t    *testing.T
	conn *pgx.Conn
}

func (l loader) exec(sql string, args ...any) {
	l.t.Helper()
	_, err := l.conn.Exec(l.t.Context(), sql, args...)
	require.NoError(l.t, err, sql)
}

// bare drops the indexes of a table except the unique ones, lets work fill the table, and creates them
// again.
func (l loader) bare(table string, work func()) {
	l.t.Helper()
	rows, err := l.conn.Query(l.t.Context(), `
SELECT c.relname::text, pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = $1::regclass AND NOT i.indisunique`, table)
	require.NoError(l.t, err)
	type index struct{ Name, Definition string }
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	require.NoError(l.t, err)
	for _, x := range all {
		l.exec(fmt.Sprintf(`DROP INDEX %s`, x.Name))
	}
	work()
	for _, x := range all {
		l.exec(strings.Replace(x.Definition, " ON ONLY ", " ON ", 1))
	}
}
