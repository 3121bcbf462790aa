package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestRunRetryOfAWindow checks that each run that ended in the window and state is live again once, under its
// id, that runs which cannot be retried are counted, and that the command requires a state and a time.
func TestRunRetryOfAWindow(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, New, pool)
	a.Operate()
	a.Good("job", "create", "events", "--every", "1h", "--target", "noop", "--queue", "events")
	a.Good("job", "create", "others", "--every", "1h", "--target", "noop")
	_, err := pool.Exec(t.Context(), `DELETE FROM run`)
	require.NoError(t, err)
	// Each job has ten runs, a minute apart. Every second one failed, one ended twice, and one was triggered.
	_, err = pool.Exec(t.Context(), `INSERT INTO run_history
  (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id)
WITH x AS (SELECT date_trunc('hour', now()) - interval '2 h' AS at)
SELECT partition, 0, 1, id, at + m, at + m, at + m, 1 + n % 2, 1, 0, 0, queue_id
FROM job, x, generate_series(0, 9) n, LATERAL (SELECT n * interval '1 min' AS m) y
UNION ALL SELECT partition, 0, 1, id, at, at, at + interval '5 s', 1, 2, 0, 0, queue_id FROM job, x
UNION ALL SELECT partition, 1, 1, id, at, at, at, 1, 1, 1, 0, queue_id FROM job, x`)
	require.NoError(t, err)
	var from, to string
	require.NoError(t, pool.QueryRow(t.Context(), `WITH x AS (SELECT
  (date_trunc('hour', now()) - interval '2 h') AT TIME ZONE 'UTC' AS at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"' AS f)
SELECT to_char(at, f), to_char(at + interval '6 min', f) FROM x`).Scan(&from, &to))
	for _, args := range [][]string{
		{},
		{"--state", "succeeded"},
		{"--ended-from", from},
		{"--state", "running", "--due-from", from},
		{"run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000", "--state", "failed"},
	} {
		s := a.Belfry("", append([]string{"run", "retry"}, args...)...)
		require.Error(t, s.Failure, args)
	}
	live := func() (n, events int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE q.name = 'events')
FROM run r JOIN queue q ON q.id = r.queue_id WHERE seq = 0`).Scan(&n, &events))
		return n, events
	}
	window := []string{"run", "retry", "--state", "succeeded", "--ended-from", from, "--ended-to", to}
	require.Contains(t, a.Good(append(window, "--queue", "events", "-o", "json")...), `"done": 4`)
	n, events := live()
	require.Equal(t, []int{3, 3}, []int{n, events})
	said := a.Good(window...)
	require.Regexp(t, `retry: finished, 4 of .*done, \d+ failed`, said)
	require.Contains(t, said, "belfry operation items op_")
	n, _ = live()
	require.Equal(t, 6, n)
	said = a.Good("run", "retry", "--state", "failed", "--job", "events", "--due-from", from, "-o", "json")
	require.Contains(t, said, `"done": 5`)
}

// TestRunRetryOnlyOfTheLastEnd checks that a run that succeeded since it failed is not retried, and that a second
// call does not repeat what the first one did.
func TestRunRetryOnlyOfTheLastEnd(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, New, pool)
	a.Operate()
	a.Good("job", "create", "events", "--every", "1h", "--target", "noop")
	_, err := pool.Exec(t.Context(), `DELETE FROM run`)
	require.NoError(t, err)
	// Six runs failed, one of them without an attempt. One has succeeded since.
	_, err = pool.Exec(t.Context(), `INSERT INTO run_history
  (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id)
WITH x AS (SELECT n, date_trunc('hour', now()) - interval '2 h' + n * interval '1 min' AS at
  FROM generate_series(0, 5) n)
SELECT partition, 0, 1, id, at, at, at, 2, least(n, 1), 0, 0, queue_id FROM job, x
UNION ALL SELECT partition, 0, 1, id, at, at, at + interval '30 min', 1, 2, 0, 0, queue_id FROM job, x WHERE n = 1`)
	require.NoError(t, err)
	retry := []string{"run", "retry", "--state", "failed", "--ended-from", "2026-01-01T00:00:00Z", "-o", "json"}
	said := a.Good(retry...)
	require.Contains(t, said, `"done": 5`)
	require.Contains(t, said, `"failed": 0`)
	said = a.Good(retry...)
	require.Contains(t, said, `"done": 0`)
	require.Contains(t, said, `"failed": 5`, "they are live")
}

// A table cuts messages if the terminal is too narrow. A pipe gets them whole.
func TestMessagesAreNotCut(t *testing.T) {
	t.Parallel()
	message := strings.Repeat("what happened ", 20) + "and what to do"
	v := runView{Reason: "rejected", Message: message}
	require.Equal(t, "rejected: "+message, v.outcome())
}
