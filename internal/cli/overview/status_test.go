package overview_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, cli.New, pool)
	out := a.Good("status")
	require.Contains(t, out, "● ON TIME  0 late")
	require.Contains(t, out, "! 256 partitions have no owner: their runs wait for a node.", "there is no node")
	require.Contains(t, out, "audit: no sample in the last hour")
	require.Contains(t, a.Good("status", "-o", "json"), `"due_next_5m": 0`)

	// What a node would have counted, and a run that is late.
	a.Good("job", "create", "report", "--every", "24h", "--target", "noop")
	store := pgtest.NewStore(pool)
	now, err := store.Now(t.Context(), access.DefaultNamespace)
	require.NoError(t, err)
	minute := now.Truncate(time.Minute).Add(-30 * time.Minute)
	row := job.StatRow{StatKey: job.StatKey{Namespace: access.DefaultNamespace, Minute: minute}}
	row.Started, row.Succeeded, row.Failed, row.Late = 1200, 1100, 9, 4
	require.NoError(t, store.WriteStats(t.Context(), uuid.New(), []job.StatRow{
		row, {StatKey: job.StatKey{Minute: minute}, Audited: 5000},
	}, false))
	_, err = pool.Exec(t.Context(), `INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt,
			priority, origin, admit, queue_id, needs_sweep)
		SELECT partition, 1, 1, id, now() - interval '5 min', now() - interval '5 min', 0, 0, 0, 1, 0, queue_id, false
		FROM job`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		out = a.Good("status")
		return regexp.MustCompile(`▲ LATE  1 run has not started, the oldest for 5m\d+s`).MatchString(out)
	}, time.Minute, 100*time.Millisecond, "%s", &out)
	require.Regexp(t, `succeeded 1 h +1,100`, out)
	require.Regexp(t, `failed 1 h +9`, out)
	require.Regexp(t, `started +█ +max 1,200`, out)
	require.Regexp(t, `late +█ +max 4`, out)
	require.Contains(t, out, "audit: 5,000 occurrences checked in the last hour")
}
