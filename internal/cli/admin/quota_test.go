package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

func TestQuota(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, cli.New, pool)
	_, err := pool.Exec(t.Context(), `UPDATE namespace SET max_jobs = 1 WHERE name = 'default'`)
	require.NoError(t, err)
	a.Good("job", "create", "report", "--every", "1h", "--url", "https://example.com/x")
	s := a.Belfry("", "job", "create", "another", "--every", "1h", "--url", "https://example.com/x")
	require.ErrorContains(t, s.Failure, "the namespace uses 1 of its quota of 1 jobs, and this needs 1 more")
	require.Regexp(t, `(?m)^QUOTA +USED +LIMIT\njobs +1 +1\nruns_per_minute +none$`, a.Good("quota"))
	require.Contains(t, a.Good("quota", "-o", "json"), `"used": 1`)
}
