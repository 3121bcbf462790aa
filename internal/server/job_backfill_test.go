package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

func TestAJobIsBackfilled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.make(`{"name":"hourly","schedule":"0 * * * *","target":{"kind":"noop"}}`)
	require.Equal(t, 200, b.call("POST", "/jobs/hourly:pause", "").status)
	var now time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT date_trunc('hour', now())`).Scan(&now))
	at := func(h int) string { return now.Add(time.Duration(h) * time.Hour).UTC().Format(time.RFC3339) }
	call := func(from, to int, more string, header ...string) answer {
		body := fmt.Sprintf(`{"from":%q,"to":%q%s}`, at(from), at(to), more)
		return b.call("POST", "/jobs/hourly:backfill", body, header...)
	}
	type run struct {
		Due, At time.Time
		Seq     int16
		Origin  job.Origin
	}
	runs := func() []run {
		rows, err := b.pool.Query(t.Context(), `SELECT due_at, run_at, seq, origin FROM run ORDER BY due_at, seq`)
		require.NoError(t, err)
		out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[run])
		require.NoError(t, err)
		return out
	}
	// In ten hours, the seventh occurrence has run and the eighth was skipped.
	var id uuid.UUID
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT id FROM job`).Scan(&id))
	for i, ended := range []job.Ended{job.EndedSucceeded, job.EndedSkipped} {
		due := now.Add(time.Duration(i-3) * time.Hour)
		_, err := b.pool.Exec(t.Context(), `
INSERT INTO run_history
    (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, queue_id)
SELECT partition, 0, 1, id, $1, $1, now(), $2, 1, 0, 0, queue_id FROM job`, due, ended)
		require.NoError(t, err)
	}
	a := call(-10, 0, `,"dry_run":true`)
	require.Equal(t, 202, a.status, "%s", a.body)
	got := a.json(t)
	require.EqualValues(t, 9, got["runs"])
	require.EqualValues(t, 1, got["existing"])
	require.Empty(t, runs())

	a = call(-10, 0, `,"pace":"30s","max":4`, "Idempotency-Key", "b")
	got = a.json(t)
	require.EqualValues(t, 4, got["runs"])
	require.Equal(t, at(-10), got["first_due_at"])
	require.Equal(t, at(-7), got["last_due_at"])
	require.Equal(t, at(-6), got["continue_from"])
	require.Equal(t, string(a.body), string(call(-10, 0, `,"pace":"30s","max":4`, "Idempotency-Key", "b").body))
	made := runs()
	require.Len(t, made, 4)
	for i, r := range made {
		require.Equal(t, job.FromBackfill, r.Origin)
		require.EqualValues(t, 1, r.Seq)
		require.Equal(t, time.Duration(i)*30*time.Second, r.At.Sub(made[0].At))
	}
	require.EqualValues(t, 5, call(-10, 0, "").json(t)["runs"], "the rest, but for the one that ran")
	require.EqualValues(t, 0, call(-10, 0, "").json(t)["runs"])
	a = call(-4, 0, `,"again":true,"pace":"0s"`)
	require.EqualValues(t, 4, a.json(t)["runs"])
	made = runs()
	require.Len(t, made, 13)
	require.EqualValues(t, 1, made[len(made)-5].Seq, "that ran by schedule only")
	require.EqualValues(t, 2, made[len(made)-1].Seq)

	for body, field := range map[string]string{
		fmt.Sprintf(`{"from":%q,"to":%q}`, at(-1), at(2)):                "to",
		fmt.Sprintf(`{"from":%q,"to":%q}`, at(-1), at(-2)):               "to",
		fmt.Sprintf(`{"from":%q,"to":%q,"pace":"2h"}`, at(-2), at(-1)):   "pace",
		fmt.Sprintf(`{"from":%q,"to":%q,"pace":"soon"}`, at(-2), at(-1)): "pace",
		fmt.Sprintf(`{"from":%q,"to":%q,"max":10001}`, at(-2), at(-1)):   "max",
		fmt.Sprintf(`{"from":%q}`, at(-2)):                               "to",
	} {
		a := b.call("POST", "/jobs/hourly:backfill", body)
		require.Equal(t, 422, a.status, "%s: %s", body, a.body)
		require.Contains(t, string(a.body), `"field":"`+field+`"`)
	}
	a = b.call("POST", "/jobs/none:backfill", fmt.Sprintf(`{"from":%q,"to":%q}`, at(-2), at(-1)))
	require.Equal(t, 404, a.status)
	good, _, err := b.store.VerifyAudit(t.Context(), defaultNamespace, access.AuditCheck{}, 1000)
	require.NoError(t, err)
	require.EqualValues(t, 7, good.Seq, "a key, create, pause and four backfills")
}

// TestABackfillIsBounded: a job that runs every second, backfilled from a week ago. A job whose runs may not overlap
// gets fewer.
func TestABackfillIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.make(`{"name":"often","schedule":"every 1s","overlap":"allow","target":{"kind":"noop"}}`)
	b.make(`{"name":"alone","schedule":"every 1s","target":{"kind":"noop"}}`)
	var from time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT date_trunc('hour', now()) - interval '7 days'`).Scan(&from))
	to := from.Add(100 * time.Hour)
	body := fmt.Sprintf(`{"from":%q,"to":%q,"pace":"0s"}`,
		from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	a := b.call("POST", "/jobs/often:backfill", body)
	require.Equal(t, 202, a.status, "%s", a.body)
	require.EqualValues(t, job.MaxBackfill, a.json(t)["runs"])
	require.Equal(t, from.UTC().Add(job.MaxBackfill*time.Second).Format(time.RFC3339), a.json(t)["continue_from"])
	a = b.call("POST", "/jobs/often:backfill", body)
	require.EqualValues(t, job.MaxBackfill, a.json(t)["existing"])
	require.EqualValues(t, job.MaxLive-job.LeaveToOthers-job.MaxBackfill, a.json(t)["runs"])

	a = b.call("POST", "/jobs/alone:backfill", body)
	require.Equal(t, 202, a.status, "%s", a.body)
	const most = job.MaxLiveAlone - job.LeaveToOthers
	require.EqualValues(t, most, a.json(t)["runs"])
	require.Equal(t, from.UTC().Add(most*time.Second).Format(time.RFC3339), a.json(t)["continue_from"])
	a = b.call("POST", "/jobs/alone:backfill", body)
	require.Equal(t, 409, a.status, "%s", a.body)
	require.Contains(t, string(a.body), "wait until some have ended, or cancel those that are not needed")
	a = b.call("POST", "/jobs/alone:trigger", "")
	require.Equal(t, 202, a.status, "a backfill leaves some to others: %s", a.body)
}
