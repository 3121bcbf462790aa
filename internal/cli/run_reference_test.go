package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// withHistory creates a job with three ended runs of this hour and one planned run, and one retry.
func withHistory(t *testing.T, a *clitest.API, pool *pgxpool.Pool) (hour time.Time) {
	t.Helper()
	a.Good("job", "create", "report", "--every", "1h", "--target", "noop")
	_, err := pool.Exec(t.Context(), `DELETE FROM run`)
	require.NoError(t, err)
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT date_trunc('hour', now()) - interval '1 h'`).Scan(&hour))
	_, err = pool.Exec(t.Context(), `INSERT INTO run_history
  (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id)
SELECT partition, s, 1, id, $1::timestamptz + m, $1::timestamptz + m, $1::timestamptz + m + interval '1 s', 1, 1, sign(s), 0, queue_id
FROM job, (VALUES (0, interval '0'), (0, interval '1 min'), (2, interval '1 min'), (1, interval '1234567 us')) v (s, m)`,
		hour)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO run
  (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, queue_id, admit, needs_sweep)
SELECT partition, 0, 1, id, now() + m, now() + m, 0, a, 0, 0, queue_id, 0, false
FROM job, (VALUES (0, interval '1 d'), (2, interval '2 d')) v (a, m)`)
	require.NoError(t, err)
	return hour.UTC()
}

// What a table prints for a run is accepted as input, as is the beginning of its id; an ambiguous one lists the
// candidates.
func TestRunReferences(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, New, pool)
	hour := withHistory(t, a, pool)
	at := hour.Format("2006-01-02T15")
	lines := strings.Split(strings.TrimSpace(a.Good("run", "list")), "\n")[1:]
	require.Len(t, lines, 4)
	seen := map[string]bool{}
	for _, line := range lines {
		reference := strings.Fields(line)[0]
		require.LessOrEqual(t, len(line), 80, line)
		id := runID(t, a.Good("run", "get", reference, "-o", "json"))
		require.False(t, seen[id], "each is another run")
		seen[id] = true
		require.Equal(t, id, runID(t, a.Good("run", "get", id, "-o", "json")))
	}
	first := runID(t, a.Good("run", "get", "report@"+at+":00:00", "-o", "json"))
	require.Equal(t, first, runID(t, a.Good("run", "get", first[:len(first)-1], "-o", "json")), "the beginning of an id")
	require.Contains(t, a.Good("run", "list"), "report@"+at+":00:01.234Z/1")
	require.Contains(t, a.Good("run", "get", "report@"+at+":00:00"), "report@"+at+":00:00Z\n")
	for reference, want := range map[string]string{
		"report@" + at + ":00":       "matches more than one run",
		"report@" + at + ":30":       "there is no run",
		"report@" + at + ":00:00Z/7": "there is no run",
		"other@" + at + ":00:00Z":    "there is no",
		"report@soon":                "does not name a run",
		"run_123":                    "is too short for a run",
	} {
		s := a.Belfry("", "run", "get", reference)
		require.ErrorContains(t, s.Failure, want, reference)
	}
	s := a.Belfry("", "run", "get", "report@"+at+":01")
	require.Equal(t, 2, strings.Count(s.Failure.Error(), "\n  run_"), "the error lists the candidates")

	// More runs than a page has: one behind it may match too.
	_, err := pool.Exec(t.Context(), `INSERT INTO run_history
  (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id)
SELECT partition, s, 1, id, due, due, due + interval '1 s', 1, 1, sign(s), 0, queue_id
FROM job, generate_series(0, 120) s, LATERAL (SELECT $1::timestamptz + interval '2 min' + s * interval '1 ms' AS due) d`,
		hour)
	require.NoError(t, err)
	for _, reference := range []string{"report@" + at + ":02:00Z/60", "report@" + at + ":02/7"} {
		require.ErrorContains(t, a.Belfry("", "run", "get", reference).Failure, "too many runs match", reference)
	}
	runID(t, a.Good("run", "get", "report@"+at+":02:00.060/60", "-o", "json"))
}

func runID(t *testing.T, raw string) string {
	t.Helper()
	var run struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal([]byte(raw), &run))
	return run.ID
}

// job runs shows what happened, and --upcoming what is planned.
func TestJobRuns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, New, pool)
	withHistory(t, a, pool)
	out := a.Good("job", "runs", "report")
	require.NotContains(t, out, "pending")
	require.Equal(t, 4, strings.Count(out, "succeeded"), out)
	out = a.Good("job", "runs", "report", "--upcoming")
	require.NotContains(t, out, "succeeded")
	require.Contains(t, out, "pending")
	require.Error(t, a.Belfry("", "job", "runs", "report", "--upcoming", "--state", "failed").Failure)
	out = a.Good("run", "list", "--job", "report", "--since", "30d", "-o", "name")
	require.Regexp(t, `^(run_\w{40}\n)+$`, out)
	require.Empty(t, a.Good("run", "list", "--since", "1s", "-o", "name"))
	require.Contains(t, a.Good("run", "list", "-o", "wide"), "ENDED UTC")
	require.Equal(t, "report\n", a.Good("job", "list", "-o", "name"))
	require.Error(t, a.Belfry("", "run", "list", "--since", "soon").Failure)
	id := runID(t, a.Good("job", "get", "report", "-o", "json"))
	require.Contains(t, a.Good("job", "get", id[:12]), "report", "the beginning of a job's id")
}
