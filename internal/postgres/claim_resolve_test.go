package postgres_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestClaimedWaitsForClaimsUnderWay: the client's connection is gone, but the server still processes the claim. The
// reply "not claimed" would leave the run leased to a live session that does not know it.
func TestClaimedWaitsForClaimsUnderWay(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	lock := int64(binary.BigEndian.Uint64(b.session[8:])) // as Claim does
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock_shared($1)`, lock)
	require.NoError(t, err)
	_, err = tx.Exec(
		t.Context(), `UPDATE run SET state = 1, attempt = 1, session_id = $1, claimed_at = now()`, b.session,
	)
	require.NoError(t, err)
	answers := make(chan []job.Attempt, 1)
	go func() {
		got, err := b.store.ResolveClaim(context.Background(), b.session, []job.Key{b.key})
		if err == nil {
			answers <- got
		}
		close(answers)
	}()
	select {
	case <-answers:
		t.Fatal("it did not wait")
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, tx.Commit(t.Context()))
	require.Len(t, <-answers, 1)
}

// TestALockedRunIsResolvedLater: a change of the job has locked the run for a moment. That does not mean that the run
// is gone.
func TestALockedRunIsResolvedLater(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM run FOR UPDATE`)
	require.NoError(t, err)
	admitted, err := b.store.AdmitOne(t.Context(), b.session, b.key, time.Second)
	require.NoError(t, err)
	require.Nil(t, admitted.Claimed)
	require.False(t, admitted.Done)
	_, err = tx.Exec(t.Context(), `DELETE FROM run`)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	admitted, err = b.store.AdmitOne(t.Context(), b.session, b.key, time.Second)
	require.NoError(t, err)
	require.True(t, admitted.Done, "now it is gone")
}

// TestRunsBeyondTheLookAheadNeedTheSweep: a new owner loads runs only up to the look-ahead. Its sweep has to find later
// ones.
func TestRunsBeyondTheLookAheadNeedTheSweep(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	for _, jitter := range []string{"", "24h"} {
		j, err := b.store.CreateJob(
			t.Context(),
			job.CreateParams{Namespace: uuid.New(), Actor: "test", Definition: job.Definition{
				Name: "every" + jitter, Schedule: schedule.Spec{Every: "30s", Jitter: jitter},
				Target: job.Target{Kind: "noop", Config: json.RawMessage(`{}`)},
			}},
		)
		require.NoError(t, err)
		_, err = b.pool.Exec(t.Context(), `DELETE FROM run WHERE job_id = $1`, j.ID)
		require.NoError(t, err)
		_, err = b.store.Plan(
			t.Context(), job.PlanParams{Partitions: []int16{j.Partition}, LookAhead: 2 * time.Minute, Cursors: 10},
		)
		require.NoError(t, err)
		var planned, wrong int
		require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT count(*), count(*) FILTER (WHERE needs_sweep <> (run_at > now() + interval '2 min')) FROM run
    WHERE job_id = $1`, j.ID).Scan(&planned, &wrong))
		require.Positive(t, planned)
		require.Zero(t, wrong)
	}
}
