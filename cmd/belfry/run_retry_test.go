package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestRunRetryOfAWindow: what ended within it, and in that state, is live again under its id, once; what cannot be is
// counted; and nothing happens without a state and a time.
func TestRunRetryOfAWindow(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := apiOn(t, pool)
	a.good("job", "create", "events", "--every", "1h", "--target", "noop", "--queue", "events")
	a.good("job", "create", "others", "--every", "1h", "--target", "noop")
	_, err := pool.Exec(t.Context(), `DELETE FROM run`)
	require.NoError(t, err)
	// Ten of each job, a minute apart, and each second one failed; one ended twice, and one was triggered.
	_, err = pool.Exec(t.Context(), `INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id)
SELECT partition, 0, 1, id, at, at, at, 1 + n % 2, 1, 0, 0, queue_id FROM job, generate_series(0, 9) n, LATERAL (SELECT date_trunc('hour', now()) - interval '2 h' + n * interval '1 min' AS at) x
UNION ALL SELECT partition, 0, 1, id, at, at, at + interval '5 s', 1, 2, 0, 0, queue_id FROM job, LATERAL (SELECT date_trunc('hour', now()) - interval '2 h' AS at) x
UNION ALL SELECT partition, 1, 1, id, at, at, at, 1, 1, 1, 0, queue_id FROM job, LATERAL (SELECT date_trunc('hour', now()) - interval '2 h' AS at) x`)
	require.NoError(t, err)
	var from, to string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT to_char(at, f), to_char(at + interval '6 min', f) FROM
(SELECT (date_trunc('hour', now()) - interval '2 h') AT TIME ZONE 'UTC' AS at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"' AS f) x`).Scan(&from, &to))
	for _, args := range [][]string{
		{},
		{"--state", "succeeded"},
		{"--ended-from", from},
		{"--state", "running", "--due-from", from},
		{"run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000", "--state", "failed"},
	} {
		s := a.belfry("", append([]string{"run", "retry"}, args...)...)
		require.Error(t, s.failure, args)
	}
	live := func() (n, events int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE q.name = 'events') FROM run r JOIN queue q ON q.id = r.queue_id WHERE seq = 0`).Scan(&n, &events))
		return n, events
	}
	window := []string{"run", "retry", "--state", "succeeded", "--ended-from", from, "--ended-before", to}
	require.Contains(t, a.good(append(window, "--queue", "events", "-o", "json")...), `"done": 3`)
	n, events := live()
	require.Equal(t, []int{3, 3}, []int{n, events})
	said := a.good(window...)
	require.Contains(t, said, "retry: 3 of 8 run again")
	require.Contains(t, said, "5 cannot")
	n, _ = live()
	require.Equal(t, 6, n)
	require.Contains(t, a.good("run", "retry", "--state", "failed", "--job", "events", "--due-from", from, "-o", "json"), `"done": 5`)
}
