package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// leaping is a schema with a clock that moves on by a second at each reading. It comes before pg_catalog in the search
// path.
const leapingClock = `
CREATE SCHEMA leaping;
CREATE SEQUENCE leaping.readings;
CREATE TABLE leaping.start AS SELECT pg_catalog.now() AS at;
CREATE FUNCTION leaping.now() RETURNS timestamptz LANGUAGE sql VOLATILE
AS $$SELECT at + interval '1 s' * pg_catalog.nextval('leaping.readings') FROM leaping.start$$;
CREATE FUNCTION leaping.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT leaping.now()$$;
CREATE FUNCTION leaping.statement_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT leaping.now()$$;
CREATE FUNCTION leaping.transaction_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT leaping.now()$$`

// TestPlanReadsTheClockOnce: with a second reading, what is due between the two is lost.
func TestPlanReadsTheClockOnce(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	j := b.create(definition("a", everySecond))
	b.exec(leapingClock)
	config := b.pool.Config()
	config.ConnConfig.RuntimeParams["search_path"] = "leaping, pg_catalog, public"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer pool.Close()
	store := pgtest.NewStore(pool)
	const plans = 30
	var last time.Time
	for range plans {
		p, err := store.Plan(
			t.Context(), job.PlanParams{Partitions: []int16{partition}, LookAhead: 2 * time.Second, Cursors: 10},
		)
		require.NoError(t, err)
		last = p.Now
	}
	var readings int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT last_value FROM leaping.readings`).Scan(&readings))
	require.Equal(t, plans, readings)
	require.Equal(t, grid(time.Second, j.CreatedAt, last.Add(2*time.Second)), dueTimes(b.live(j)))
}
