package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// accepted returns a report about a run whose target has responded with 202.
func (b *fenceBundle) accepted(t *testing.T) access.Report {
	t.Helper()
	attempts := b.claim(t, b.session, time.Minute)
	require.Len(t, attempts, 1)
	_, fenced, err := b.store.CompleteDecided(t.Context(), []job.Completion{
		attempts[0].Completion(job.Outcome{Kind: job.Accepted, Status: 202}),
	})
	require.NoError(t, err)
	require.Zero(t, fenced)
	r := access.ReportOf(attempts[0])
	r.Until = clock.Now().Add(access.ReportLife)
	return r
}

func (b *fenceBundle) reportBy(t *testing.T) (left time.Duration) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT expires_at - now() FROM run WHERE state = 2`).Scan(&left))
	return left
}

func TestReports(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	r := b.accepted(t)
	require.InDelta(t, time.Hour, b.reportBy(t), float64(time.Minute), "the default of report_timeout")

	// A heartbeat restarts the time.
	_, err := b.pool.Exec(t.Context(), `UPDATE run SET expires_at = now() + interval '1 s'`)
	require.NoError(t, err)
	by, err := b.store.HeartbeatRun(t.Context(), r)
	require.NoError(t, err)
	require.InDelta(t, time.Hour, by.Sub(clock.Now()), float64(time.Minute))
	require.InDelta(t, time.Hour, b.reportBy(t), float64(time.Minute))
	soon := r
	soon.Until = clock.Now().Add(time.Minute)
	by, err = b.store.HeartbeatRun(t.Context(), soon)
	require.NoError(t, err)
	require.Equal(t, soon.Until.UnixMicro(), by.UnixMicro(), "never beyond the token's own end")

	// A failure is retried, and a later report of the first attempt is stale.
	require.NoError(t, b.store.ReportRun(t.Context(), r, job.Outcome{Kind: job.Failed, Retryable: true, Message: "no"}))
	require.ErrorIs(t, b.store.ReportRun(t.Context(), r, job.Outcome{Kind: job.Succeeded}), job.ErrStale)
	_, err = b.pool.Exec(t.Context(), `UPDATE run SET run_at = now()`)
	require.NoError(t, err)
	second := b.accepted(t)
	require.Equal(t, int16(2), second.Attempt)
	require.ErrorIs(t, b.store.ReportRun(t.Context(), r, job.Outcome{Kind: job.Succeeded}), job.ErrStale)
	_, err = b.store.HeartbeatRun(t.Context(), r)
	require.ErrorIs(t, err, job.ErrStale)

	expired := second
	expired.Until = clock.Now().Add(-time.Minute)
	err = b.store.ReportRun(t.Context(), expired, job.Outcome{Kind: job.Succeeded})
	require.ErrorIs(t, err, access.ErrReportExpired)
	_, err = b.store.HeartbeatRun(t.Context(), expired)
	require.ErrorIs(t, err, access.ErrReportExpired)

	require.NoError(t, b.store.ReportRun(t.Context(), second, job.Outcome{Kind: job.Succeeded, Message: "42 rows"}))
	var ended, attempt int16
	var message string
	require.NoError(
		t,
		b.pool.QueryRow(t.Context(), `SELECT ended, attempt, message FROM run_history`).
			Scan(&ended, &attempt, &message),
	)
	require.Equal(t, []any{int16(1), int16(2), "42 rows"}, []any{ended, attempt, message})
}

// TestReportBeforeTheResponse: a target may report before the node has read its 202.
func TestReportBeforeTheResponse(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	a := b.claim(t, b.session, time.Minute)[0]
	r := access.ReportOf(a)
	r.Until = clock.Now().Add(access.ReportLife)
	_, err := b.store.HeartbeatRun(t.Context(), r)
	require.NoError(t, err)
	require.NoError(t, b.store.ReportRun(t.Context(), r, job.Outcome{Kind: job.Succeeded}))
	_, fenced, err := b.store.CompleteDecided(
		t.Context(), []job.Completion{a.Completion(job.Outcome{Kind: job.Accepted})},
	)
	require.NoError(t, err)
	require.Equal(t, 1, fenced, "the run is over")
}

// TestUnreportedIsLost: a run that was accepted and not reported in time is lost, an outcome like any other.
func TestUnreportedIsLost(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	r := b.accepted(t)
	_, err := b.pool.Exec(t.Context(), `UPDATE run SET expires_at = now() - interval '1 s'`)
	require.NoError(t, err)
	retries, found, err := b.store.Rescue(t.Context(), []int16{b.key.Partition}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, found)
	require.Len(t, retries, 1)
	require.ErrorIs(t, b.store.ReportRun(t.Context(), r, job.Outcome{Kind: job.Succeeded}), job.ErrStale)
}
