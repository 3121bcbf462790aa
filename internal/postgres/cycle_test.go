package postgres_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// loadJobs makes n hourly jobs on 60 schedules, straight in SQL.
func loadJobs(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO cursor (partition, id, namespace_id, key, schedule, missed, next_due_at)
		SELECT p, 1000 * p + m, '00000000-0000-7000-8000-000000000001', sha256(m::text::bytea), format('{"cron":"%s * * * *","timezone":"UTC"}', m), '{"policy":"once","catch_up_window":"30m","max":100,"pace":"1s"}',
		       date_trunc('hour', now()) + interval '1 hour' + m * interval '1 min'
		FROM generate_series(0, 255) p, generate_series(0, 59) m`,
		`INSERT INTO job (partition, id, namespace_id, cursor_id, queue_id, version, state, priority, admit, jitter_ms, timeout_ms, plan_from, created_at, updated_at, name, target_kind, target_config, payload, schedule, policy)
		SELECT get_byte(sha256(uuid_send(id)), 0), id, '00000000-0000-7000-8000-000000000001', 1000 * get_byte(sha256(uuid_send(id)), 0) + g % 60, 1, 1, 1, 0, 1, 0, 30000, now(), now(), now(),
		       'job-' || g, 'noop', '{"url":"http://127.0.0.1:9999/hook","method":"POST"}', '"' || repeat('x', 300) || '"', '{}', '{}'
		FROM (SELECT g, (lpad(to_hex(1760000000000 + g), 12, '0') || '7' || substr(md5(g::text), 1, 3) || '8' || substr(md5(g::text), 4, 15))::uuid AS id FROM generate_series(1, ` + strconv.Itoa(n) + `) g) x`,
		`VACUUM ANALYZE job`, `VACUUM ANALYZE cursor`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
}

// TestCycleRate measures the SQL of plan, claim and complete alone. It takes
// minutes, so it is asked for: BELFRY_CYCLE_JOBS=1000000 go test -run CycleRate
func TestCycleRate(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("BELFRY_CYCLE_JOBS"))
	if n == 0 {
		t.Skip("set BELFRY_CYCLE_JOBS=1000000 to measure")
	}
	const workers, seconds = 2, 10
	pool := pgtest.New(t)
	store := postgres.NewStore(pool)
	require.NoError(t, store.MakeHistory(t.Context(), 1))
	loadJobs(t, pool, n)
	session := uuid.New()
	_, err := store.Register(t.Context(), session, "bench", time.Hour)
	require.NoError(t, err)
	owned, err := store.Ownerships(t.Context())
	require.NoError(t, err)
	_, err = store.Take(t.Context(), session, owned)
	require.NoError(t, err)

	for _, batch := range []int{1000, 4000} {
		c := &cycles{store: store, session: session, workers: workers, batch: batch, jobs: n}
		ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		var wal0, wal1 int64
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`).Scan(&wal0))
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() { c.work(ctx, t, w) })
		}
		wg.Wait()
		cancel()
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`).Scan(&wal1))
		r := float64(c.runs.Load())
		t.Logf("jobs=%d batch=%d: %.0f runs/s, WAL %.0f B/run, plan %.1f claim %.1f complete %.1f µs per run and connection", n, batch, r/seconds, float64(wal1-wal0)/r,
			float64(c.plan.Load())/r/1e3, float64(c.claim.Load())/r/1e3, float64(c.complete.Load())/r/1e3)
	}
}

// cycles is workers that plan, claim and complete as fast as they can.
type cycles struct {
	store   *postgres.Store
	session uuid.UUID

	workers, batch, jobs        int
	runs, plan, claim, complete atomic.Int64
}

func (c *cycles) work(ctx context.Context, t *testing.T, w int) {
	cursors := max(1, c.batch/max(1, c.jobs/256/60))
	var mine []int16
	for p := w; p < 256; p += c.workers {
		mine = append(mine, int16(p))
	}
	timed := func(sum *atomic.Int64, work func()) {
		begin := clock.Now()
		work()
		sum.Add(int64(clock.Now().Sub(begin)))
	}
	for i := 0; ctx.Err() == nil; i++ {
		at := i * cursors % len(mine)
		part := append(append([]int16{}, mine[at:]...), mine[:at]...)[:min(cursors, len(mine))]
		hours := time.Duration(2+c.runs.Load()/int64(c.jobs)) * time.Hour
		var keys []job.Key
		timed(&c.plan, func() {
			planned, err := c.store.Plan(context.WithoutCancel(ctx), job.PlanOrder{Partitions: part, LookAhead: hours, Cursors: len(part)})
			require.NoError(t, err)
			require.Empty(t, planned.Broken)
			seen := map[uuid.UUID]bool{}
			for _, r := range planned.Runs {
				if !seen[r.Job] {
					keys = append(keys, r.Key)
				}
				seen[r.Job] = true
			}
		})
		var done []job.Completion
		timed(&c.claim, func() {
			claimed, err := c.store.Claim(context.WithoutCancel(ctx), c.session, keys, 1000*time.Hour)
			require.NoError(t, err)
			for _, a := range claimed {
				done = append(done, job.Completion{Key: a.Key, Attempt: a.Number})
			}
		})
		timed(&c.complete, func() {
			fenced, err := c.store.CompleteSucceeded(context.WithoutCancel(ctx), done)
			require.NoError(t, err)
			require.Zero(t, fenced)
		})
		c.runs.Add(int64(len(done)))
	}
}
