package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/why"
)

const (
	aDay   = 24 * time.Hour
	month  = 30 * aDay // the retention of the cluster
	oldRun = 40        // days ago
)

// keeping is jobs with and without rules, and old days of history.
type keeping struct {
	*jobs
	long, failures, plain job.Job
}

func setupKeeping(t testing.TB) *keeping {
	t.Helper()
	k := &keeping{jobs: setupJobs(t)}
	k.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'mine')`, k.namespace)
	long, failures := definition("long", everyHour), definition("failures", everyHour)
	long.KeepHistory, failures.KeepFailures = job.Duration(90*aDay), 3
	k.long, k.failures, k.plain = k.create(long), k.create(failures), k.create(definition("plain", everyHour))
	return k
}

// day creates a day of history and adds n succeeded runs of each job, and failed ones. They are wide, so that a day has
// many pages.
func (k *keeping) day(ago, n, failed int) (table string) {
	k.t.Helper()
	from := k.now().Truncate(aDay).AddDate(0, 0, -ago)
	table = from.Format("run_history_20060102")
	k.exec(fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF run_history FOR VALUES FROM ('%s') TO ('%s')`, table,
		from.Format(time.RFC3339), from.AddDate(0, 0, 1).Format(time.RFC3339)))
	for ended, n := range map[job.Ended]int{job.EndedSucceeded: n, job.EndedFailed: failed} {
		k.exec(`
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id,
                         message)
SELECT partition, 0, 1, id, at, at, at, $3, 1, 0, 0, queue_id, repeat('x', 1500)
FROM generate_series(1, $2) g, LATERAL (SELECT $1::timestamptz + g * interval '1 s' + $3 * interval '1 h' AS at) x, job`,
			from, n, int16(ended))
	}
	return table
}

// seen returns how many runs of a job the namespace sees, and checks that it sees none twice.
func (k *keeping) seen(j job.Job, ended job.Ended) (n int) {
	k.t.Helper()
	ctx := context.WithoutCancel(k.t.Context())
	tx, err := k.pool.Begin(ctx)
	require.NoError(k.t, err)
	defer func() { require.NoError(k.t, tx.Rollback(ctx)) }()
	_, err = tx.Exec(ctx, `SELECT set_config('role', 'belfry_api', true), set_config('belfry.namespace', $1, true)`,
		k.namespace.String())
	require.NoError(k.t, err)
	var rows int
	require.NoError(k.t, tx.QueryRow(ctx, `
SELECT count(*), count(DISTINCT (due_at, seq, ended_at)) FROM run_history_all WHERE job_id = $1 AND ended = $2`,
		j.ID, int16(ended)).Scan(&rows, &n))
	require.Equal(k.t, n, rows, "a run is there twice")
	return n
}

func (k *keeping) drop(store *pgtest.Store) []string {
	k.t.Helper()
	dropped, err := pgtest.DropHistory(k.t.Context(), store, month)
	require.NoError(k.t, err)
	return dropped
}

// sweep removes what no rule keeps, as a node does hours after the last time.
func (k *keeping) sweep() {
	k.t.Helper()
	k.exec(`UPDATE cluster SET kept_swept_at = NULL`)
	require.Empty(k.t, k.drop(pgtest.NewStore(pgtest.AsServer(k.t, k.pool))))
}

// list lists runs of the namespace. A page may have fewer runs than asked for.
func (k *keeping) list(q job.RunQuery) (out []job.Entry) {
	k.t.Helper()
	q.Namespace, q.Limit = k.namespace, 100
	for {
		page, err := k.store.Runs(k.t.Context(), q)
		require.NoError(k.t, err)
		out = append(out, page.Entries...)
		if page.Next == nil {
			return out
		}
		q.After = *page.Next
	}
}

// TestRunsOutliveTheirDay: what a rule keeps is there after its day was dropped, for everything that reads runs. Nothing
// else is.
func TestRunsOutliveTheirDay(t *testing.T) {
	t.Parallel()
	k := setupKeeping(t)
	server := pgtest.NewStore(pgtest.AsServer(t, k.pool))
	other := &jobs{t: t, store: k.store, pool: k.pool, namespace: uuid.New()}
	k.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'other')`, other.namespace)
	require.NoError(t, k.store.KeepNamespace(t.Context(), "other", 60*aDay))
	deleted, short := other.create(definition("deleted", everyHour)), definition("short", everyHour)
	short.KeepHistory = job.Duration(31 * aDay) // a job overrides its namespace
	overrides := other.create(short)
	k.day(oldRun+1, 400, 2)
	k.day(oldRun, 400, 2)
	other.remove(deleted)
	tag, err := pgtest.AsServer(t, k.pool).Exec(t.Context(), `SELECT belfry_drop_history($1)`, month)
	require.NoError(t, err)
	require.Zero(t, tag.RowsAffected(), "a node of an older version drops nothing while there are rules")
	require.Len(t, k.drop(server), 2)

	require.Equal(t, 804, k.seen(k.long, job.EndedSucceeded)+k.seen(k.long, job.EndedFailed))
	require.Zero(t, k.seen(k.plain, job.EndedSucceeded)+k.seen(k.plain, job.EndedFailed))
	require.Zero(t, k.seen(k.failures, job.EndedSucceeded))
	require.Zero(t, k.seen(deleted, job.EndedSucceeded), "runs of another namespace")
	require.Equal(t, 804, k.count(`run_history_kept WHERE job_id = $1`, deleted.ID), "the rule of its namespace stays")
	require.Zero(t, k.count(`run_history_kept WHERE job_id = $1`, overrides.ID))
	require.Zero(t, k.count(`run_history_copy`))

	// The last three of four failures, in order.
	last := k.list(job.RunQuery{Job: k.failures.ID})
	require.Len(t, last, 3)
	first := k.now().Truncate(aDay).AddDate(0, 0, -oldRun-1)
	require.Equal(t, first.Add(2*time.Hour+2*time.Second), last[2].DueAt)
	require.Len(t, k.list(job.RunQuery{States: []job.RunStatus{job.StatusFailed}}), 7, "the list of all jobs has them too")
	require.Len(t, k.list(job.RunQuery{}), 807)

	one := last[0].Key
	_, err = k.store.Run(t.Context(), k.namespace, one)
	require.NoError(t, err)
	_, err = k.store.Run(t.Context(), other.namespace, one)
	require.Error(t, err)
	stories, err := k.store.Why(t.Context(), why.Params{Namespace: k.namespace, Job: one.Job, Run: &one})
	require.NoError(t, err)
	require.Len(t, stories, 1)

	// A run that is kept is not planned or numbered again, and can be retried.
	require.NoError(t, k.store.RetryRun(t.Context(), job.RunParams{Namespace: k.namespace, Key: one}))

	// Rules change.
	k.exec(`UPDATE job SET keep_failures = 1 WHERE id = $1`, k.failures.ID)
	k.exec(`UPDATE job SET keep_history = interval '979 h 30 min' WHERE id = $1`, k.long.ID)
	k.exec(`UPDATE run_history_kept SET ended_at = now() - interval '979 h' WHERE job_id = $1 AND due_at < $2`, k.long.ID,
		first.Add(time.Hour+11*time.Second))
	k.exec(`UPDATE run_history_kept SET ended_at = now() - interval '980 h' WHERE job_id = $1 AND due_at >= $2`, k.long.ID,
		first.Add(time.Hour+11*time.Second))
	require.NoError(t, k.store.KeepNamespace(t.Context(), "other", 0))
	k.sweep()
	require.Equal(t, 1, k.seen(k.failures, job.EndedFailed))
	require.Equal(t, 10, k.seen(k.long, job.EndedSucceeded), "those whose time has not passed")
	require.Equal(t, 11, k.count(`run_history_kept`))
}

// killer closes the connection before the statement of this number.
type killer struct {
	mu   sync.Mutex
	left int
}

func (x *killer) TraceQueryStart(ctx context.Context, c *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.left--; x.left == 0 {
		_ = c.PgConn().Conn().Close()
	}
	return ctx
}
func (*killer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestACopyThatIsCutOff: a node dies before each statement of the copy in turn. At no time is a run missing or there
// twice, and the next node goes on where the last one committed.
func TestACopyThatIsCutOff(t *testing.T) {
	t.Parallel()
	k := setupKeeping(t)
	const runs = 500
	table := k.day(oldRun, runs, 5)
	k.day(oldRun+1, 1, 1)
	config := pgtest.AsServer(t, k.pool).Config().Copy()
	x := &killer{}
	config.ConnConfig.Tracer = x
	expected, furthest, moved := runs+1, int64(0), false
	for n := 1; ; n++ {
		x.left = n + 1 // the pool's check of a new connection
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		_, err = pgtest.DropHistory(t.Context(), pgtest.NewStore(pool), month)
		pool.Close()
		require.Equal(t, expected, k.seen(k.long, job.EndedSucceeded), "cut off before statement %d", n)
		require.GreaterOrEqual(t, k.seen(k.failures, job.EndedFailed), 3)
		if err == nil && k.count(`pg_class WHERE relname = $1`, table) == 0 {
			break // otherwise the node before still holds the lock for moments
		}
		var page int64
		row := k.pool.QueryRow(t.Context(), `
SELECT coalesce(max(next_page), 0) FROM run_history_copy WHERE to_char(day, '"run_history_"YYYYMMDD') = $1`, table)
		require.NoError(t, row.Scan(&page))
		require.True(t, moved || page >= furthest, "progress was lost")
		if page > 100 && !moved { // rows that come late, and rows that move
			moved = true
			k.exec(`INSERT INTO run_history SELECT partition, 1, version, job_id, due_at, run_at, ended_at, started_at, ended,
				attempt, origin, status, queue_id FROM run_history WHERE job_id = $1 AND ended = 1 ORDER BY ended_at DESC LIMIT 3`,
				k.long.ID)
			expected += 3
			k.exec(`CLUSTER ` + table + ` USING ` + table + `_job_id_due_at_idx`)
		}
		furthest = max(furthest, page)
		require.Less(t, n, 500)
	}
	require.Greater(t, furthest, int64(100), "the copy had many pages")
	require.Equal(t, 3, k.seen(k.failures, job.EndedFailed), "the last three")
	require.Equal(t, expected+6+3, k.count(`run_history_kept`))
	require.Zero(t, k.count(`run_history_copy`))
	require.Nil(t, k.drop(k.store))
}

// TestNodesDropADayAtTheSameTime: each run is copied once, and each day is dropped once.
func TestNodesDropADayAtTheSameTime(t *testing.T) {
	t.Parallel()
	k := setupKeeping(t)
	for i := range 3 {
		k.day(oldRun+i, 300, 2)
	}
	var nodes sync.WaitGroup
	for range 4 {
		store := pgtest.NewStore(pgtest.AsServer(t, k.pool))
		nodes.Go(func() {
			for k.count(`pg_class WHERE relname ~ '^run_history_\d{8}$' AND relname < to_char(now() - interval '31 d',
				'"run_history_"YYYYMMDD')`) > 0 {
				_, err := pgtest.DropHistory(t.Context(), store, month)
				if err != nil {
					t.Error(err)
				}
				assert.Equal(t, 900, k.seen(k.long, job.EndedSucceeded))
			}
		})
	}
	nodes.Wait()
	require.Equal(t, 3*302+3, k.count(`run_history_kept`))
}

// TestRulesAreNoted: a day is copied if a job has a rule, also if it got the rule later.
func TestRulesAreNoted(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("plain", everyHour))
	require.Zero(t, b.count(`history_rule`))
	d := j.Definition
	d.KeepFailures = 1
	_, err := b.store.UpdateJob(t.Context(), job.UpdateParams{
		Namespace: b.namespace, ID: j.ID, IfVersion: j.Version, Definition: d, Actor: "test",
	})
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`history_rule`))
	long := definition("long", everyHour)
	long.KeepHistory = job.Duration(90 * aDay)
	b.create(long)
	require.Equal(t, 1, b.count(`history_rule`), "once for a namespace")
}

// TestTheArchiveComesBeforeTheCopy: a day that the archive requires and does not have is neither copied nor dropped. A row
// that comes while the day is copied keeps it until the archive has it.
func TestTheArchiveComesBeforeTheCopy(t *testing.T) {
	t.Parallel()
	k := setupKeeping(t)
	table := k.day(oldRun, 300, 0)
	k.exec(`UPDATE archive_setting SET required = true`)
	require.Empty(t, k.drop(k.store))
	require.Zero(t, k.count(`run_history_copy`)+k.count(`run_history_kept`))
	_, err := pgtest.AsServer(t, k.pool).Exec(t.Context(), `SELECT belfry_drop_day($1)`, table)
	require.ErrorContains(t, err, "the archive does not have all rows")
	day := k.now().Truncate(aDay).AddDate(0, 0, -oldRun)
	k.exec(`INSERT INTO archive_day (day, closed_at, archived_at) VALUES ($1, now(), now())`, day)
	require.Len(t, k.drop(k.store), 1)
	require.Equal(t, 300, k.seen(k.long, job.EndedSucceeded))
	require.Equal(t, 1, k.count(`archive_day WHERE dropped_at IS NOT NULL`))
	require.Zero(t, k.count(`archive_day WHERE changed`))
}

// TestKeptHistoryHasTheColumnsOfHistory: rows are copied by the order of columns, and the view has those of both.
func TestKeptHistoryHasTheColumnsOfHistory(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var same bool
	require.NoError(t, pool.QueryRow(t.Context(), `
SELECT count(DISTINCT columns) = 1 AND count(*) = 3 FROM (
    SELECT array_agg((attname, atttypid) ORDER BY attnum)::text AS columns FROM pg_attribute
    WHERE attrelid IN ('run_history'::regclass, 'run_history_kept'::regclass, 'run_history_all'::regclass)
      AND attnum > 0 AND NOT attisdropped GROUP BY attrelid) x`).Scan(&same))
	require.True(t, same)
}
