package postgres_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// bulk is a database with a large number of jobs, which SQL inserts directly, and a session that owns all partitions.
type bulk struct {
	t       testing.TB
	pool    *pgxpool.Pool
	store   *pgtest.Store
	session uuid.UUID
}

func setupBulk(t testing.TB, tracer pgx.QueryTracer) *bulk {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.MaxConns, config.ConnConfig.Tracer = 8, tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b := &bulk{t: t, pool: pool, store: pgtest.NewStore(pool)}
	b.session, _ = b.store.Own(t)
	return b
}

func (b *bulk) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

const (
	bulkNamespace = `'00000000-0000-7000-8000-000000000001'`
	bulkMissed    = `'{"policy":"once","catch_up_window":"30m","max":100,"pace":"1s"}'`
	// Numbers as ids of version 7: in time order, spread over all partitions.
	bulkIDs = `SELECT g, id, get_byte(sha256(uuid_send(id)), 0) AS partition FROM (
		SELECT g, (lpad(to_hex(1760000000000 + g), 12, '0') || '7' || substr(md5(g::text), 1, 3) ||
		           '8' || substr(md5(g::text), 4, 15))::uuid AS id
		FROM generate_series(1, %d) g) x`
)

// shared creates n jobs on 60 hourly schedules, which are due from the next full hour on.
func (b *bulk) shared(n int) {
	b.t.Helper()
	b.exec(`INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed, next_due_at)
		SELECT p, 1000 * p + m, ` + bulkNamespace + `, sha256(m::text::bytea),
		       format('{"cron":"%s * * * *","timezone":"UTC"}', m), ` + bulkMissed + `,
		       date_trunc('hour', now()) + interval '1 hour' + m * interval '1 min'
		FROM generate_series(0, 255) p, generate_series(0, 59) m`)
	b.insertJobs(n, `1000 * partition + mod(g, 60)`)
}

// lonely creates n jobs, each with its own schedule: a different second of each month.
func (b *bulk) lonely(n int) {
	b.t.Helper()
	b.exec(fmt.Sprintf(`INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed, next_due_at)
		SELECT partition, g, `+bulkNamespace+`, sha256(g::text::bytea),
		       format('{"cron":"%%s %%s %%s %%s * *","timezone":"UTC"}', s %% 60, s / 60 %% 60, s / 3600 %% 24,
		              1 + s / 86400), `+bulkMissed+`,
		       s * interval '1 s' +
		           CASE WHEN month + s * interval '1 s' > now() THEN month ELSE month + interval '1 month' END
		FROM (SELECT g, partition, g::bigint * 7919 %% (28 * 86400) AS s,
		             date_trunc('month', now(), 'UTC') AS month
		      FROM (`+bulkIDs+`) i) o`, n))
	b.insertJobs(n, `g`)
}

func (b *bulk) insertJobs(n int, cursor string) {
	b.t.Helper()
	b.exec(fmt.Sprintf(`
		INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms,
		                 timeout_ms, plan_from, created_at, updated_at, name, target_kind, target_config, payload,
		                 schedule, policy)
		SELECT partition, id, `+bulkNamespace+`, `+cursor+`, 1, 1, 1, 0, 1, 0, 30000, now(), now(), now(),
		       'job-' || g, 'noop', '{"url":"http://127.0.0.1:9999/hook","method":"POST"}',
		       '"' || repeat('x', 300) || '"', '{}', '{}'
		FROM (`+bulkIDs+`) i`, n))
}

// pending creates n pending runs of every job, due in the next minutes.
func (b *bulk) pending(n int) {
	b.t.Helper()
	b.exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
		queue_id, needs_sweep)
		SELECT partition, 0, 1, id, due, due, 0, 0, 0, 0, 1, 1, false
		FROM job, LATERAL (
		    SELECT date_trunc('minute', now()) + m * interval '1 min' AS due FROM generate_series(1, $1) m) d`, n)
}

// keys returns the earliest pending run of each of n jobs.
func (b *bulk) keys(n int) []job.Key {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `
SELECT DISTINCT ON (job_id) partition, job_id, due_at, seq FROM run
WHERE state = 0 /* pending */ AND seq = 0
ORDER BY job_id, due_at LIMIT $1`, n)
	require.NoError(b.t, err)
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k job.Key, err error) {
		err = row.Scan(&k.Partition, &k.Job, &k.DueAt, &k.Seq)
		return k, err
	})
	require.NoError(b.t, err)
	require.Len(b.t, keys, n)
	return keys
}

// farLead is a lead with which runs can be claimed long before they are due.
const farLead = 10_000 * time.Hour

func (b *bulk) claim(keys []job.Key) []job.Completion {
	b.t.Helper()
	claimed, err := b.store.Claim(b.t.Context(), b.session, keys, farLead)
	require.NoError(b.t, err)
	require.Len(b.t, claimed, len(keys))
	done := make([]job.Completion, len(claimed))
	for i, a := range claimed {
		done[i] = a.Completion(job.Outcome{Kind: job.Succeeded})
	}
	return done
}

func (b *bulk) complete(done []job.Completion) {
	b.t.Helper()
	fenced, err := b.store.CompleteSucceeded(b.t.Context(), done)
	require.NoError(b.t, err)
	require.Zero(b.t, fenced)
}

func allPartitions() []int16 {
	all := make([]int16, job.Partitions)
	for i := range all {
		all[i] = int16(i)
	}
	return all
}

// fromEnv reads a number for the long form of a test from the environment. The default is that of the short form.
func fromEnv(t testing.TB, variable string, short int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return short
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, variable)
	return n
}
