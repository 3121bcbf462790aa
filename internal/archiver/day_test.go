package archiver_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/postgres"
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
			if postgres.Code(err) == "55P03" {
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
	require.EqualValues(t, days-1, one[int](b, `SELECT count(*) FROM archive_day WHERE dropped_at IS NOT NULL`))
}
