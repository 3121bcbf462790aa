package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// work is what the database has done: transactions, and rows read of definitions and live runs.
type work struct{ transactions, scanned, byIndex int64 }

func workOf(t *testing.T, conn *pgx.Conn) (w work) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), `
SELECT xact_commit + xact_rollback,
    (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname IN ('job', 'cursor', 'run')),
       (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname IN ('job', 'cursor', 'run'))
FROM pg_stat_database WHERE datname = current_database()`).Scan(&w.transactions, &w.scanned, &w.byIndex))
	return w
}

// TestAnIdleNodeIsIdle checks that quiet jobs cost nothing. It counts the transactions of the database: each
// query of a node is one.
// BELFRY_IDLE_JOBS=1000000 BELFRY_IDLE_SECONDS=60 is the long form.
func TestAnIdleNodeIsIdle(t *testing.T) {
	t.Parallel()
	most := 10.0 // transactions per second
	if os.Getenv("BELFRY_IDLE_JOBS") == "" {
		most = 15 // autovacuum counts too, and has more to do in a new database while other tests run
	}
	jobs := number(t, "BELFRY_IDLE_JOBS", 20_000)
	window := time.Duration(number(t, "BELFRY_IDLE_SECONDS", 8)) * time.Second
	url, pool := pgtest.ServerURL(t)
	conn, err := pgx.Connect(t.Context(), pool.Config().ConnString())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	quietJobs(t, conn, jobs)

	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		c := app.Config{Config: config.Default()}
		c.DatabaseURL, c.Listen, c.Slots, c.Connections, c.Drain = url, "127.0.0.1:0", 10, 8, time.Second
		c.Canary = false // its runs are not idleness
		served <- app.Serve(ctx, c, slog.New(slog.DiscardHandler))
	}()
	defer func() { stop(); require.NoError(t, <-served) }()
	require.Eventually(t, func() bool {
		var owned int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM partition WHERE owner IS NOT NULL`).Scan(&owned)
		return err == nil && owned == 256
	}, time.Minute, 100*time.Millisecond)
	// PostgreSQL counts the queries of the start late, when their connections are used again. The first window
	// therefore does not count.
	var rate float64
	var done work
	for try := 0; try < 8 && (try == 0 || rate > most); try++ {
		before, begin := workOf(t, conn), clock.Elapsed()
		wait(t, window)
		after, seconds := workOf(t, conn), (clock.Elapsed() - begin).Seconds()
		done = work{
			after.transactions - before.transactions,
			after.scanned - before.scanned,
			after.byIndex - before.byIndex,
		}
		rate = float64(done.transactions) / seconds
		t.Logf("%d jobs: %.1f transactions/s; per second, %.0f rows by index and %.0f by scan of job, cursor and run",
			jobs, rate, float64(done.byIndex)/seconds, float64(done.scanned)/seconds)
	}
	require.LessOrEqual(t, rate, most)
	require.Zero(t, done.scanned)
	require.NotZero(t, done.byIndex, "the planner looks")
	require.Less(t, float64(done.byIndex)/window.Seconds(), 1000.0,
		"one for each partition and second, not for each job")
}

// quietJobs makes jobs that are due once in a month, the next time in weeks, each with a schedule of its own.
func quietJobs(t *testing.T, conn *pgx.Conn, n int) {
	t.Helper()
	ids := fmt.Sprintf(`SELECT g, id, get_byte(sha256(uuid_send(id)), 0) AS partition
		FROM (SELECT g, gen_random_uuid() AS id FROM generate_series(1, %d) g) x`, n)
	for _, sql := range []string{
		`CREATE TEMP TABLE made AS ` + ids,
		`INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed, next_due_at)
		SELECT partition, g, '00000000-0000-7000-8000-000000000001', sha256(g::text::bytea), '{"cron":"0 0 1 * *"}',
			'{"policy":"once"}', now() + interval '20 days' + g * interval '1 s' FROM made`,
		`INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms,
			timeout_ms, plan_from, created_at, updated_at, name, target_kind, target_config, schedule, policy)
		SELECT partition, id, '00000000-0000-7000-8000-000000000001', g, 1, 1, 1, 0, 1, 0,
			30000, now(), now(), now(), 'job-' || g, 'noop', '{}', '{}', '{}' FROM made`,
		`VACUUM ANALYZE job, cursor`, // or autovacuum would, and be counted
	} {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
}

func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func number(t *testing.T, variable string, short int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return short
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, variable)
	return n
}
