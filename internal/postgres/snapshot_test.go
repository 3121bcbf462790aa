package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// path plans, claims and completes runs through the store as fast as it can.
type path struct {
	*bulk
	workers int
	group   int // partitions planned at once
	rounds  []int

	plan, claim, complete, runs atomic.Int64 // time and number since the last rate

	mu      sync.Mutex
	longest time.Duration // of one completion, since the last rate
}

// pace is how many full cycles per second were done, and how many database pages each read. The second does not depend
// on the load of the machine.
type pace struct{ rate, pages float64 }

// phase is how long to work: for some time, or for a number of runs, which does not depend on the load of the machine.
type phase struct {
	lasts time.Duration
	runs  int64 // 0: as many as there is time for
}

// times is a longer phase.
func (p phase) times(n int) phase { return phase{time.Duration(n) * p.lasts, int64(n) * p.runs} }

// rate works for a phase and returns the pace.
func (p *path) rate(what string, of phase) pace {
	p.t.Helper()
	pages := p.pages()
	for _, sum := range []*atomic.Int64{&p.plan, &p.claim, &p.complete, &p.runs} {
		sum.Store(0)
	}
	p.longest = 0
	begin := clock.Elapsed()
	more := func() bool {
		if of.runs > 0 {
			return p.runs.Load() < of.runs
		}
		return clock.Elapsed() < begin+of.lasts
	}
	var wg sync.WaitGroup
	for w := range p.workers {
		wg.Go(func() {
			for more() {
				p.round(w, more)
			}
		})
	}
	wg.Wait()
	runs := float64(p.runs.Load())
	out := pace{rate: runs / (clock.Elapsed() - begin).Seconds(), pages: float64(p.pages()-pages) / runs}
	us := func(sum *atomic.Int64) float64 { return float64(sum.Load()) / runs / 1e3 }
	p.t.Logf(
		"%s: %.0f runs/s, %.1f pages per run; plan %.1f, claim %.1f, complete %.1f µs per run and connection", what,
		out.rate, out.pages, us(&p.plan), us(&p.claim), us(&p.complete),
	)
	return out
}

// pages returns how many pages the database has read.
func (p *path) pages() (n int64) {
	p.t.Helper()
	for _, conn := range p.pool.AcquireAllIdle(p.t.Context()) {
		_, err := conn.Exec(p.t.Context(), `SELECT pg_stat_force_next_flush()`)
		require.NoError(p.t, err)
		conn.Release()
	}
	require.NoError(
		p.t,
		p.pool.QueryRow(p.t.Context(), `SELECT blks_hit + blks_read FROM pg_stat_database
			WHERE datname = current_database()`).
			Scan(&n),
	)
	return n
}

// round takes a worker's partitions forward by one hour.
func (p *path) round(w int, more func() bool) {
	ctx := context.WithoutCancel(p.t.Context())
	var mine []int16
	for i := w; i < job.Partitions; i += p.workers {
		mine = append(mine, int16(i))
	}
	p.rounds[w]++
	ahead := time.Duration(1+p.rounds[w]) * time.Hour
	for i := 0; i < len(mine) && more(); i += p.group {
		t0 := clock.Elapsed()
		planned, err := p.store.Plan(
			ctx,
			job.PlanParams{Partitions: mine[i:min(i+p.group, len(mine))], LookAhead: ahead, Cursors: 60 * p.group},
		)
		require.NoError(p.t, err)
		t1 := clock.Elapsed()
		var keys []job.Key
		seen := map[uuid.UUID]bool{}
		for _, r := range planned.Runs {
			if !seen[r.Job] { // no two of one job in one claim
				keys = append(keys, r.Key)
			}
			seen[r.Job] = true
		}
		done := p.bulk.claim(keys)
		t2 := clock.Elapsed()
		p.bulk.complete(done)
		p.plan.Add(int64(t1 - t0))
		p.claim.Add(int64(t2 - t1))
		completed := clock.Elapsed() - t2
		p.mu.Lock()
		p.longest = max(p.longest, completed)
		p.mu.Unlock()
		p.complete.Add(int64(completed))
		p.runs.Add(int64(len(done)))
	}
}

// measureScans measures the statements that scan for runs instead of reading them by key.
func (p *path) measureScans(what string) {
	p.t.Helper()
	ctx, all, now := p.t.Context(), allPartitions(), p.now()
	rescue := func() error { _, _, err := p.store.Rescue(ctx, all, 1000); return err }
	gone := uuid.New()
	_, err := p.store.Register(ctx, gone, "gone", time.Hour)
	require.NoError(p.t, err)
	require.NoError(p.t, rescue())
	for _, scan := range []struct {
		name string
		do   func() error
	}{
		{"Rescue", rescue},
		{"Rescue after a session has died", func() error {
			return errors.Join(p.store.Unregister(ctx, gone), rescue())
		}},
		{"Pending", func() error { _, err := p.store.Pending(ctx, all, now.Add(time.Minute)); return err }},
		{"Sweep", func() error {
			_, err := p.store.Sweep(ctx, job.SweepParams{
				Partitions: all, From: now.Add(-time.Minute), To: now.Add(time.Minute),
			})
			return err
		}},
	} {
		begin := clock.Elapsed()
		require.NoError(p.t, scan.do())
		p.t.Logf("%s: %s takes %s", what, scan.name, (clock.Elapsed() - begin).Round(100*time.Microsecond))
	}
}

// die leaves n dead rows behind, equally many of each job.
func (p *path) die(n, jobs int) {
	p.t.Helper()
	p.exec(`INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit,
		queue_id, needs_sweep)
		SELECT partition, 9, 1, id, now() - n * interval '1 s', now(), 0, 0, 0, 0, 1, 1, false
		FROM job, generate_series(1, $1) n`, n/jobs)
	p.exec(`DELETE FROM run WHERE seq = 9`)
}

// openSnapshot opens a snapshot and keeps it, like a forgotten psql. Rows that die after it cannot be removed.
func (p *path) openSnapshot() (release func()) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.pool.Config().ConnString())
	require.NoError(p.t, err)
	_, err = conn.Exec(
		p.t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM partition`,
		pgx.QueryExecModeSimpleProtocol,
	)
	require.NoError(p.t, err)
	return func() { require.NoError(p.t, conn.Close(context.Background())) }
}

// TestAnOpenSnapshotDoesNotSlowThePath: a queue that scans for the first pending row drops to a twentieth of its rate
// under one idle snapshot, because dead rows pile up before it. Lookups by key do not meet them. The short form counts
// pages. BELFRY_SNAPSHOT_SECONDS=90 BELFRY_SNAPSHOT_JOBS=100000 measures the time.
func TestAnOpenSnapshotDoesNotSlowThePath(t *testing.T) {
	const short, least = 4, 0.8
	long := fromEnv(t, "BELFRY_SNAPSHOT_SECONDS", short)
	quarter := phase{lasts: time.Duration(long) * time.Second / 4}
	if long == short {
		quarter.runs = 20_000
	}
	jobs, dead := fromEnv(t, "BELFRY_SNAPSHOT_JOBS", 50_000), fromEnv(t, "BELFRY_SNAPSHOT_DEAD", 0)
	p := &path{bulk: setupBulk(t, nil), workers: 2}
	p.rounds, p.group = make([]int, p.workers), max(1, 1000*job.Partitions/jobs)
	p.shared(jobs)
	p.exec(`VACUUM ANALYZE job, cursor`)
	if long == short { // it would change how many pages are read, at any time
		p.exec(`ALTER TABLE run SET (autovacuum_enabled = false)`)
	}
	p.rate("warm up", quarter)
	before := p.rate("without", quarter)
	p.measureScans("without")
	release := p.openSnapshot()
	p.rate("with an open snapshot, first", quarter.times(3))
	open := p.rate("with an open snapshot, last", quarter)
	p.measureScans("with an open snapshot")
	if dead > 0 {
		p.die(dead, jobs)
		p.measureScans(fmt.Sprintf("with an open snapshot and %d more dead runs", dead))
		p.rate("with those", quarter)
	}
	release()
	t.Logf(
		"with the snapshot %.2f of the rate, and %.2f times the pages", open.rate/before.rate,
		open.pages/before.pages,
	)
	if long > short {
		require.Greater(t, open.rate/before.rate, least)
	} else {
		require.Less(t, open.pages/before.pages, 1/least)
	}
}
