package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// far is a database that is 20 ms away in each direction, with two busy processors.
func (b *bulk) far() *pgtest.Store {
	b.t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.Delayed(b.t, b.pool.Config().ConnString(), 20*time.Millisecond))
	require.NoError(b.t, err)
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(b.t.Context(), config)
	require.NoError(b.t, err)
	var busy sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		busy.Go(func() {
			for !done.Load() {
			}
		})
	}
	b.t.Cleanup(func() {
		done.Store(true)
		busy.Wait()
		pool.Close()
	})
	return pgtest.NewStore(pool)
}

// history creates runs of one job that ended every minute in the last days, one of 200 of them in another way.
func (b *bulk) history(days int, ended job.Ended, reason string) {
	b.t.Helper()
	today := b.now().UTC().Truncate(24 * time.Hour)
	for d := 1; d <= days; d++ {
		day := today.AddDate(0, 0, -d)
		b.exec(fmt.Sprintf(`CREATE TABLE IF NOT EXISTS run_history_%s PARTITION OF run_history FOR VALUES FROM ('%s') TO ('%s')`,
			day.Format("20060102"), day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)))
	}
	b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
			status, queue_id, reason)
		SELECT j.partition, 0, 1, j.id, at, at, at, CASE WHEN m % 200 = 7 THEN $2::smallint ELSE 1 END, 1, 0, 0, 1, $3
		FROM (SELECT * FROM job ORDER BY id LIMIT 1) j, generate_series(1, $1 * 1440) m,
		     LATERAL (SELECT now() - m * interval '1 min' AS at) x`, days-1, int16(ended), reason)
}

// TestListsOfADatabaseFarAway: latency and a busy machine change neither what a list returns nor its pages, which are
// full.
func TestListsOfADatabaseFarAway(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.queue(1, "default", bulkUUID())
	b.shared(300)
	b.history(5, job.EndedFailed, "attempts")
	b.dead(70, 2, 3)
	b.exec(`UPDATE dead_letter SET failed_at = now() - (random() * interval '40 days'), reason = 'attempts'`)
	b.exec(`UPDATE dead_letter SET reason = 'lost' WHERE ctid IN (SELECT ctid FROM dead_letter LIMIT 3)`)
	b.runs(120, 1, "-1 min")
	b.runs(3000, 1, "50 s")
	var id uuid.UUID
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT id FROM job ORDER BY id LIMIT 1`).Scan(&id))
	away := b.far()

	runs := func(q job.RunQuery) func(*pgtest.Store) (int, int) {
		return func(s *pgtest.Store) (rows, pages int) {
			q := q
			q.Namespace, q.Limit = access.DefaultNamespace, 50
			for {
				page, err := s.Runs(t.Context(), q)
				require.NoError(t, err)
				rows, pages = rows+len(page.Entries), pages+1
				if page.Next == nil {
					return rows, pages
				}
				require.Len(t, page.Entries, 50, "a page before the last one is full")
				q.After = *page.Next
			}
		}
	}
	dead := func(q job.DeadQuery) func(*pgtest.Store) (int, int) {
		return func(s *pgtest.Store) (rows, pages int) {
			q := q
			q.Namespace, q.Limit = access.DefaultNamespace, 50
			for {
				page, err := s.DeadLetters(t.Context(), q)
				require.NoError(t, err)
				rows, pages = rows+len(page.Letters), pages+1
				if page.Next == nil {
					return rows, pages
				}
				require.Len(t, page.Letters, 50)
				q.After = *page.Next
			}
		}
	}
	jobs := func(q job.ListParams) func(*pgtest.Store) (int, int) {
		return func(s *pgtest.Store) (rows, pages int) {
			q := q
			q.Namespace, q.Limit = access.DefaultNamespace, 50
			for {
				page, err := s.ListJobs(t.Context(), q)
				require.NoError(t, err)
				rows, pages = rows+len(page.Jobs), pages+1
				if page.Next == nil {
					return rows, pages
				}
				require.Len(t, page.Jobs, 50)
				q.After = *page.Next
			}
		}
	}
	failed, due := []job.RunStatus{job.StatusFailed}, []job.RunStatus{job.StatusDue}
	for name, c := range map[string]struct {
		list func(*pgtest.Store) (rows, pages int)
		rows int
	}{
		"failed":                 {runs(job.RunQuery{States: failed}), 29},
		"failed, by reason":      {runs(job.RunQuery{States: failed, Reason: "attempts"}), 29},
		"failed, none":           {runs(job.RunQuery{States: failed, Reason: "lost"}), 0},
		"skipped, none":          {runs(job.RunQuery{States: []job.RunStatus{job.StatusSkipped}}), 0},
		"failed of a job":        {runs(job.RunQuery{Job: id, States: failed}), 29},
		"skipped of a job":       {runs(job.RunQuery{Job: id, States: []job.RunStatus{job.StatusSkipped}}), 0},
		"all":                    {runs(job.RunQuery{EndedFrom: b.now().Add(-3*time.Hour - 30*time.Second)}), 180},
		"of a job":               {runs(job.RunQuery{Job: id, DueFrom: b.now().Add(-3*time.Hour - 30*time.Second)}), 180},
		"due":                    {runs(job.RunQuery{States: due}), 120},
		"running":                {runs(job.RunQuery{States: []job.RunStatus{job.StatusRunning}}), 0},
		"dead letters":           {dead(job.DeadQuery{}), 70},
		"dead letters, a reason": {dead(job.DeadQuery{DeadFilter: job.DeadFilter{Reason: "lost"}}), 3},
		"dead letters, none":     {dead(job.DeadQuery{DeadFilter: job.DeadFilter{Reason: "gone"}}), 0},
		"jobs":                   {jobs(job.ListParams{Queue: "default", Name: "job-1", State: job.Active}), 111},
		"jobs by due time":       {jobs(job.ListParams{Due: &job.DueRange{}}), 300},
	} {
		for where, store := range map[string]*pgtest.Store{"near": b.store, "far": away} {
			rows, pages := c.list(store)
			require.Equal(t, c.rows, rows, "%s, %s", name, where)
			require.Equal(t, max((c.rows+49)/50, 1), pages, "%s, %s: pages", name, where)
		}
	}
}

// TestCountsOfADatabaseFarAway: latency and a busy machine do not change them.
func TestCountsOfADatabaseFarAway(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.queue(1, "default", bulkUUID())
	b.shared(300)
	b.exec(`UPDATE cursor SET next_due_at = now() + interval '1 hour'`)
	b.runs(120, 1, "-1 min")
	b.runs(30_000, 1, "50 s")
	away := b.far()
	live := func(ctx context.Context, s *pgtest.Store) (any, error) {
		live, err := s.LiveRuns(ctx)
		return live.Queues, err
	}
	for name, read := range map[string]func(context.Context, *pgtest.Store) (any, error){
		"live runs": live,
		"queues":    func(ctx context.Context, s *pgtest.Store) (any, error) { return s.CountLive(ctx) },
		"depth": func(ctx context.Context, s *pgtest.Store) (any, error) {
			d, err := s.Depth(ctx, allPartitions(), nil)
			return []any{d.Queues[0].Due, d.Scheduled}, err
		},
		"cluster": func(ctx context.Context, s *pgtest.Store) (any, error) {
			c, err := s.Cluster(ctx)
			return c.Owners, err
		},
		"load of a queue": func(ctx context.Context, s *pgtest.Store) (any, error) {
			return s.QueueLoad(ctx, access.DefaultNamespace, 1)
		},
		"overview": func(ctx context.Context, s *pgtest.Store) (any, error) {
			o, err := s.Overview(ctx, access.DefaultNamespace)
			o.Now, o.Minutes = time.Time{}, nil
			return o, err
		},
	} {
		near, err := read(t.Context(), b.store)
		require.NoError(t, err, name)
		got, err := read(t.Context(), away)
		require.NoError(t, err, name)
		require.Equal(t, near, got, name)
	}
}
