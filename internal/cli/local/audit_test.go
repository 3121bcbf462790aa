package local_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestAudit: an occurrence is accounted for, then lost, found, run by --backfill, and accounted for again.
func TestAudit(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store := pgtest.NewStore(pool)
	require.NoError(t, store.CreateHistory(t.Context(), 1))
	var now time.Time
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT now()`).Scan(&now))
	// History is kept for longer, so that all of the last hour is judged also at midnight.
	day := now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -2)
	_, err = pool.Exec(t.Context(), fmt.Sprintf(
		`CREATE TABLE run_history_%s PARTITION OF run_history FOR VALUES FROM ('%s') TO ('%s')`, day.Format("20060102"),
		day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)))
	require.NoError(t, err)
	at := now.UTC().Add(-time.Hour).Truncate(time.Second)
	_, err = store.CreateJob(t.Context(), job.CreateParams{
		Namespace: access.DefaultNamespace, Definition: job.Definition{
			Name: "report", Schedule: schedule.Spec{At: at.Format(time.RFC3339)}, Target: job.Target{Kind: "noop"},
		},
	})
	require.NoError(t, err)
	audit := func(args ...string) (string, error) {
		return run(t, append([]string{"audit", "ledger", "--database-url", url}, args...)...)
	}

	out, err := audit("--with", "oracle")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ +1  expected$`, out)
	require.Regexp(t, `(?m)^ +1  live$`, out)
	require.Regexp(t, `(?m)^ +0  missing$`, out)
	out, err = audit("--to", at.Add(-time.Minute).Format(time.RFC3339))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ +0  expected$`, out)

	_, err = pool.Exec(t.Context(), `DELETE FROM run`)
	require.NoError(t, err)
	out, err = audit("--job", "report")
	require.ErrorContains(t, err, "the audit found 1 problem; see docs/guide/audit.md#what-to-do-with-a-finding")
	require.Regexp(t, `(?m)^missing +default +report +`+at.Format(time.DateTime), out)
	require.Contains(t, out, "--backfill runs what is missing")
	out, err = audit("-o", "json")
	require.Error(t, err)
	var got struct {
		Expected, Missing, Phantom int
		Findings                   []struct{ Kind, Namespace, Job, Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, 1, got.Missing)
	require.Contains(t, out, `"ran": 0`)
	require.Equal(t, "report", got.Findings[0].Name)

	out, err = audit("--backfill")
	require.Error(t, err)
	require.Contains(t, out, "run now: 1 missing occurrence\n")
	out, err = audit()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ +1  backfilled`, out)

	out, err = audit("--from", "2020-01-01")
	require.NoError(t, err)
	require.Contains(t, out, "asked from 2020-01-01 00:00:00 on; history can be judged from "+
		day.AddDate(0, 0, 1).Format(time.DateTime)+" on")
	out, err = audit("--from", "2020-01-01", "--to", "2020-01-02", "-o", "json")
	require.NoError(t, err, "nothing can be judged")
	require.Contains(t, out, `"asked_from": "2020-01-01T00:00:00Z",`+"\n"+`  "from": "2020-01-02T00:00:00Z",`)
	_, err = audit("--from", "2120-01-01")
	require.ErrorContains(t, err, "--from 2120-01-01T00:00:00Z is not before --to "+now.UTC().Format("2006-"))
	_, err = audit("--from", "2026-01-02", "--to", "2026-01-01")
	require.EqualError(t, err, "--from 2026-01-02T00:00:00Z is not before --to 2026-01-01T00:00:00Z")

	_, err = run(t, "audit", "ledger", "--database-url", "postgres://x@127.0.0.1:1/belfry")
	require.EqualError(t, err, "cannot connect to the database 127.0.0.1:1: connection refused; check --database-url")
	_, err = audit("--job", "nobody")
	require.ErrorContains(t, err, `there is no job "nobody"`)
	_, err = audit("--with", "magic")
	require.ErrorContains(t, err, "the only value is oracle")
}
