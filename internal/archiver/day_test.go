package archiver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// TestAttemptsOfAllOutcomes: a run that a worker snoozed is archived like any other, and so is an attempt whose outcome
// this version does not know.
func TestAttemptsOfAllOutcomes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(100)
	b.exec(`UPDATE run_history SET attempts = (SELECT jsonb_agg(jsonb_build_object('attempt', n, 'outcome', n))
		FROM generate_series(1, 8) n) WHERE job_id = '00000000-0000-0000-0000-000000000007'`)
	a, _ := b.node()
	_, err := a.Once(t.Context())
	require.NoError(t, err)
	m := b.manifest()
	require.EqualValues(t, 100, m.Sum(archive.Runs).Rows)
	q := archive.Query{
		Namespace: uuid.MustParse("00000000-0000-0000-0000-00000000000b"), Job: uuid.UUID{15: 7}, From: day, To: day,
	}
	found := 0
	for r, err := range archive.New(b.store).Runs(t.Context(), q) {
		require.NoError(t, err)
		require.Len(t, r.Attempts, 8)
		require.Equal(t, "snoozed", r.Attempts[6].Outcome)
		require.Equal(t, "8", r.Attempts[7].Outcome)
		found++
	}
	require.Equal(t, 5, found)
}

// TestDaysAreFoundByAnyPlan: names of tables that are no days of history are not read as days, in whatever order the
// planner checks conditions. Nor is a DEFAULT partition.
func TestDaysAreFoundByAnyPlan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const days = 50
	for n := 1; n < days; n++ {
		from := day.Start().AddDate(0, 0, n)
		b.exec(fmt.Sprintf(`CREATE TABLE %s PARTITION OF run_history FOR VALUES FROM ('%s') TO ('%s')`,
			from.Format("run_history_20060102"), from.Format(time.RFC3339), from.AddDate(0, 0, 1).Format(time.RFC3339)))
	}
	b.exec(`CREATE TABLE run_history_rest PARTITION OF run_history DEFAULT`)
	b.exec(`CREATE TABLE run_output_rest PARTITION OF run_output DEFAULT`)
	b.exec(`CREATE TABLE run_history_20209999 ()`)
	b.exec(`UPDATE archive_setting SET required = true`)
	conn, err := b.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	each := func(sql string) (out []string) {
		t.Helper()
		for { // each in a transaction of its own
			var name string
			err := conn.QueryRow(t.Context(), sql).Scan(&name)
			if errors.Is(err, pgx.ErrNoRows) {
				return out
			}
			if store.Code(err) == "55P03" {
				continue // autovacuum holds a lock
			}
			require.NoError(t, err)
			out = append(out, name)
		}
	}
	_, err = conn.Exec(t.Context(), `SET enable_nestloop = off; SET enable_mergejoin = off`)
	require.NoError(t, err)
	closed := each(`SELECT belfry_close_history()::text`)
	require.Len(t, closed, days)
	require.Equal(t, []string{"2020-02-29", "2020-03-01"}, closed[:2])
	require.Equal(t, []string{"run_output_20200229"}, each(`SELECT belfry_drop_history('1 day')`), "no day is archived")
	b.exec(`UPDATE archive_day SET archived_at = now() WHERE day <> '2020-03-01'`)
	dropped := each(`SELECT belfry_drop_history('1 day')`)
	require.Len(t, dropped, days-1)
	require.Equal(t, []string{"run_history_20200229", "run_history_20200302"}, dropped[:2])
	require.Equal(t, days-1, one[int](b, `SELECT count(*) FROM archive_day WHERE dropped_at IS NOT NULL`))
}

// broken is a store that cannot keep the objects of a day.
type broken struct {
	archive.Store
	day string
}

var errBroken = errors.New("the bucket refuses it")

func (s broken) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if strings.Contains(name, s.day) {
		return errBroken
	}
	return s.Store.Put(ctx, name, body, size)
}

// TestADayThatFailsDoesNotBlockOthers: it is released, and comes after the days that were not tried for longer.
func TestADayThatFailsDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(10)
	for _, next := range []string{"2020-03-01", "2020-03-02"} {
		b.exec(fmt.Sprintf(`CREATE TABLE run_history_%s PARTITION OF run_history
			FOR VALUES FROM ('%sZ') TO (timestamptz '%sZ' + interval '1 day')`, strings.ReplaceAll(next, "-", ""), next, next))
	}
	a, _ := b.node()
	a.Store = broken{b.store, day.String()}
	const behind = `SELECT count(*) FROM archive_day WHERE archived_at IS NULL`
	_, err := a.Once(t.Context())
	require.ErrorIs(t, err, errBroken)
	require.True(t, one[bool](b, `SELECT owner IS NULL FROM archive_day WHERE day = $1`, day.Start()), "it is released")
	for left := 2; left > 0; left-- {
		_, err := a.Once(t.Context())
		require.NoError(t, err)
		require.Equal(t, left, one[int](b, behind))
	}
	_, err = a.Once(t.Context())
	require.ErrorIs(t, err, errBroken, "it is tried again")
	b.exec(`UPDATE archive_day SET changed = true WHERE day = '2020-03-02'`)
	other, _ := b.node()
	_, err = other.Once(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, one[int](b, behind+` OR changed`), "a day that did not fail comes first")
	_, err = other.Once(t.Context())
	require.NoError(t, err, "another node archives it")
	b.manifest()
}

// TestADayWhoseNodeDiesDoesNotBlockOthers: the day may be what kills the nodes, for example by its size.
func TestADayWhoseNodeDiesDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`CREATE TABLE run_history_20200301 PARTITION OF run_history FOR VALUES FROM ('2020-03-01Z') TO ('2020-03-02Z')`)
	_, dead := b.node()
	_, err := b.db.Archive().CloseDays(t.Context())
	require.NoError(t, err)
	task, err := b.db.Archive().TakeDay(t.Context(), dead)
	require.NoError(t, err)
	require.Equal(t, day, task.Day)
	b.exec(`DELETE FROM session WHERE id = $1`, dead)
	_, next := b.node()
	for _, want := range []string{"2020-03-01", "2020-02-29"} {
		task, err := b.db.Archive().TakeDay(t.Context(), next)
		require.NoError(t, err)
		require.Equal(t, want, task.Day.String())
	}
}

// TestADayThatIsGone: a day whose table was dropped by hand, or detached, counts as dropped.
func TestADayThatIsGone(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]string{
		"dropped":  `DROP TABLE run_history_20200229`,
		"detached": `ALTER TABLE run_history DETACH PARTITION run_history_20200229`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fill(10)
			a, _ := b.node()
			_, err := b.db.Archive().CloseDays(t.Context())
			require.NoError(t, err)
			b.exec(gone)
			_, err = a.Once(t.Context())
			require.NoError(t, err)
			days, err := b.db.Archive().ArchiveDays(t.Context(), day, day, 10)
			require.NoError(t, err)
			require.Len(t, days, 1)
			require.Equal(t, "dropped", days[0].State)
		})
	}
}

// TestADropWaitsForAWriterOfTheDay: a statement on the table of the day does not lock run_history. The drop waits for it,
// and then finds that the day has changed.
func TestADropWaitsForAWriterOfTheDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(100)
	b.require()
	a, _ := b.node()
	const late = `DELETE FROM run_history_20200229 WHERE ctid = (SELECT ctid FROM run_history_20200229 LIMIT 1)`
	const waits = `SELECT count(*) FROM pg_locks WHERE NOT granted AND database =
		(SELECT oid FROM pg_database WHERE datname = current_database())`
	for try := 0; ; try++ { // the drop does not wait for long
		_, err := a.Once(t.Context())
		require.NoError(t, err)
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), late)
		require.NoError(t, err)
		var dropped []string
		ended := make(chan error, 1)
		go func() {
			var err error
			dropped, err = b.db.Engine().DropHistory(t.Context(), 365*24*time.Hour)
			ended <- err
		}()
		for len(ended) == 0 && one[int](b, waits) == 0 { // each round asks the database
		}
		require.NoError(t, tx.Commit(t.Context()))
		if err = <-ended; errors.Is(err, job.ErrInUse) && try < 20 {
			continue
		}
		require.NoError(t, err)
		require.NotContains(t, dropped, "run_history_20200229", "the archive does not have what changed")
		break
	}
	_, err := a.Once(t.Context())
	require.NoError(t, err)
	b.manifest()
	require.Contains(t, b.drop(), "run_history_20200229")
}
