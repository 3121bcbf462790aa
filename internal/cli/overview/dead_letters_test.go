package overview_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

func TestSummaryAndDryRun(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, cli.New, pool)
	require.Contains(t, a.Belfry("", "dlq", "summary").Err, "no dead letters")
	a.Good("job", "create", "report", "--every", "1h", "--target", "noop")
	a.Good("job", "create", "sync", "--every", "1h", "--target", "noop", "--queue", "slow")
	insert := func(name, message string, n int) string {
		cause := job.Cause(job.ReasonAttempts, 502, message)
		_, err := pool.Exec(t.Context(), `INSERT INTO dead_letter
			(partition, job_id, due_at, seq, queue_id, failed_at, attempt, reason, message, status, cause)
			SELECT partition, id, '2026-03-30 13:00:00+00'::timestamptz + g * interval '1 min', 0, queue_id,
			       '2026-03-30 13:00:00+00'::timestamptz + g * interval '1 min', 3, 'attempts', $2, 502, $3
			FROM job, generate_series(1, $4::integer) g WHERE name = $1`, name, message, cause, n)
		require.NoError(t, err)
		return cause
	}
	gateway := insert("report", "502 Bad Gateway", 40)
	refused := insert("sync", "dial tcp 10.0.0.7:443: connection refused", 3)

	require.Equal(t, `43 dead letters, 2 groups by cause

40 × `+gateway+`
  message  502 Bad Gateway
  when     ██▄██▄██▄█▄██▄██▄█▄██▄██  2026-03-30 13:01:00 to 2026-03-30 13:40:00 UTC
  last job report in queue default
  since    0 succeeded, 0 failed

3 × `+refused+`
  message  dial tcp 10.0.0.7:443: connection refused
  when     █··········█···········█  2026-03-30 13:01:00 to 2026-03-30 13:03:00 UTC
  last job sync in queue slow
  since    0 succeeded, 0 failed
`, a.Good("dlq", "summary"))
	require.Equal(t, gateway+"\n"+refused+"\n", a.Good("dlq", "summary", "-o", "name"))
	require.Contains(t, a.Good("dlq", "summary", "--by", "job", "--queue", "slow"), "3 × sync")
	require.Contains(t, a.Good("dlq", "summary", "-o", "json"), `"total": 43`)
	require.Equal(t, "redrive would cover 3 dead letters; nothing was changed\n",
		a.Good("dlq", "redrive", "--cause", refused, "--dry-run"))
	require.Contains(t, a.Good("dlq", "list", "--cause", refused), "sync@")
	require.Error(t, a.Belfry("", "dlq", "redrive", "run_1", "--dry-run").Failure)
	s := a.Belfry("y\n", "dlq", "discard", "--cause", refused, "--detach") // not a terminal
	require.ErrorContains(t, s.Failure, "this would discard 3 dead letters; nothing was changed. Repeat with --yes")
	require.Contains(t, a.Good("dlq", "discard", "--cause", refused, "--detach", "--yes"), "discard of 3 dead letters has begun")
}
