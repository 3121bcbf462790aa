package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// fenceBundle is a store with a session that owns everything, and one run.
type fenceBundle struct {
	pool    *pgxpool.Pool
	store   *pgtest.Store
	session uuid.UUID
	key     job.Key
}

func setupFence(t *testing.T, due schedule.Spec) *fenceBundle {
	t.Helper()
	b := &fenceBundle{pool: pgtest.New(t)}
	b.store = pgtest.NewStore(b.pool)
	b.session, _ = b.store.Own(t)
	j, err := b.store.CreateJob(t.Context(), job.CreateParams{
		Namespace: uuid.New(), Actor: "test",
		Definition: job.Definition{
			Name:     "job",
			Schedule: due,
			Target:   job.Target{Kind: "noop", Config: json.RawMessage(`{}`)},
		},
	})
	require.NoError(t, err)
	_, err = b.store.Plan(
		t.Context(), job.PlanParams{Partitions: []int16{j.Partition}, LookAhead: time.Minute, Cursors: 10},
	)
	require.NoError(t, err)
	b.key = job.Key{Partition: j.Partition, Job: j.ID}
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT due_at, seq FROM run`).Scan(&b.key.DueAt, &b.key.Seq))
	return b
}

func (b *fenceBundle) claim(t *testing.T, session uuid.UUID, lead time.Duration) []job.Attempt {
	t.Helper()
	attempts, err := b.store.Claim(t.Context(), session, []job.Key{b.key}, lead)
	require.NoError(t, err)
	return attempts
}

var past = schedule.Spec{At: "2026-01-01T00:00:00Z"}

// TestAStaleAttemptChangesNothing: attempt 1 was lost and attempt 2 is running. Whatever attempt 1 reports, the run
// belongs to attempt 2.
func TestAStaleAttemptChangesNothing(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	first := b.claim(t, b.session, time.Second)
	require.Len(t, first, 1)
	require.EqualValues(t, 1, first[0].Number)
	_, fenced, err := b.store.CompleteDecided(
		t.Context(), []job.Completion{first[0].Completion(job.Outcome{Kind: job.Lost})},
	)
	require.NoError(t, err)
	require.Zero(t, fenced)
	second := b.claim(t, b.session, time.Second)
	require.Len(t, second, 1)
	require.EqualValues(t, 2, second[0].Number)

	n, err := b.store.CompleteSucceeded(t.Context(), []job.Completion{first[0].Completion(job.Outcome{Kind: job.Succeeded})})
	require.NoError(t, err)
	require.Equal(t, 1, n, "a stale success is fenced")
	for _, kind := range []job.OutcomeKind{job.Failed, job.Cancelled, job.Lost, job.Accepted} {
		_, n, err = b.store.CompleteDecided(
			t.Context(), []job.Completion{first[0].Completion(job.Outcome{Kind: kind})},
		)
		require.NoError(t, err)
		require.Equal(t, 1, n, "a stale outcome of kind %d is fenced", kind)
	}
	var state, attempt int16
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT state, attempt FROM run`).Scan(&state, &attempt))
	require.EqualValues(t, job.Running, state)
	require.EqualValues(t, 2, attempt)

	n, err = b.store.CompleteSucceeded(t.Context(), []job.Completion{second[0].Completion(job.Outcome{})})
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = b.store.CompleteSucceeded(t.Context(), []job.Completion{second[0].Completion(job.Outcome{})})
	require.NoError(t, err)
	require.Equal(t, 1, n, "once is enough")
}

// TestTheLedgerHasTheMeasuredStart: a run is claimed before its run time, and starts when its node says so.
func TestTheLedgerHasTheMeasuredStart(t *testing.T) {
	t.Parallel()
	const inHistory, recorded, live = `SELECT started_at - run_at FROM run_history`,
		`SELECT (attempts -> 0 ->> 'started_at')::timestamptz - due_at FROM run`, `SELECT claimed_at - run_at FROM run`
	for name, c := range map[string]struct {
		outcome job.Outcome
		read    string
	}{
		"succeeded": {job.Outcome{Kind: job.Succeeded}, inHistory},
		"failed":    {job.Outcome{Kind: job.Failed, Message: "no"}, inHistory},
		"retried":   {job.Outcome{Kind: job.Failed, Retryable: true}, recorded},
		"accepted":  {job.Outcome{Kind: job.Accepted}, live},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupFence(t, schedule.Spec{At: clock.Now().Add(40 * time.Second).UTC().Format(time.RFC3339)})
			claimed := b.claim(t, b.session, time.Minute)
			require.Len(t, claimed, 1)
			done := claimed[0].Completion(c.outcome)
			done.Late = 120 * time.Millisecond
			var fenced int
			var err error
			if c.outcome.Kind == job.Succeeded {
				fenced, err = b.store.CompleteSucceeded(t.Context(), []job.Completion{done})
			} else {
				_, fenced, err = b.store.CompleteDecided(t.Context(), []job.Completion{done})
			}
			require.NoError(t, err)
			require.Zero(t, fenced)
			var late time.Duration
			require.NoError(t, b.pool.QueryRow(t.Context(), c.read).Scan(&late))
			require.Equal(t, done.Late, late)
		})
	}
}

// TestAnAttemptOfAnotherSessionChangesNothing: after a failover that lost a claim, attempt 1 is given out again, and two
// sessions work on an attempt 1 of the run. It belongs to the one that the row names.
func TestAnAttemptOfAnotherSessionChangesNothing(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	lost := b.claim(t, b.session, time.Second)
	require.Len(t, lost, 1)
	_, err := b.pool.Exec(t.Context(), `UPDATE run SET state = 0, attempt = 0, session_id = NULL, claimed_at = NULL`)
	require.NoError(t, err)
	other := b.newOwner(t)
	again := b.claim(t, other, time.Second)
	require.Len(t, again, 1)
	require.Equal(t, lost[0].Number, again[0].Number)

	for _, kind := range []job.OutcomeKind{job.Succeeded, job.Failed, job.Cancelled, job.Lost, job.Accepted} {
		_, n, err := b.store.CompleteDecided(
			t.Context(), []job.Completion{lost[0].Completion(job.Outcome{Kind: kind})},
		)
		require.NoError(t, err)
		assert.Equal(t, 1, n, "an outcome of kind %d is fenced", kind)
	}
	n, err := b.store.CompleteSucceeded(t.Context(), succeeded(lost))
	require.NoError(t, err)
	assert.Equal(t, 1, n, "a success is fenced")
	fenced, err := b.store.Fenced(t.Context(), []job.Attempt{lost[0], again[0]})
	require.NoError(t, err)
	assert.Equal(t, lost, fenced, "the other attempt is to be interrupted")
	output := job.Output{Key: b.key, Session: b.session, Attempt: 1, Namespace: uuid.New(), Text: "x", Total: 1}
	n, err = b.store.WriteOutputs(t.Context(), []job.Output{output})
	require.NoError(t, err)
	assert.Zero(t, n, "it writes no output")
	r := access.ReportOf(lost[0])
	r.Until = clock.Now().Add(access.ReportLife)
	require.ErrorIs(t, b.store.ReportRun(t.Context(), r, job.Outcome{Kind: job.Succeeded}), job.ErrStale)
	_, err = b.store.HeartbeatRun(t.Context(), r)
	require.ErrorIs(t, err, job.ErrStale)
	var session uuid.UUID
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT session_id FROM run WHERE state = 1`).Scan(&session))
	require.Equal(t, other, session)

	n, err = b.store.CompleteSucceeded(t.Context(), succeeded(again))
	require.NoError(t, err)
	require.Zero(t, n)
}

// newOwner is another session, which takes all partitions over.
func (b *fenceBundle) newOwner(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.New()
	_, err := b.store.Register(t.Context(), id, "other", time.Hour)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `UPDATE partition SET owner = $1, epoch = epoch + 1`, id)
	require.NoError(t, err)
	return id
}

// TestARunIsClaimedOnce: one live attempt per run.
func TestARunIsClaimedOnce(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	// Not because another run of its job is live: that policy has nothing to say here.
	_, err := b.pool.Exec(t.Context(), `UPDATE run SET admit = 0`)
	require.NoError(t, err)
	require.Len(t, b.claim(t, b.session, time.Second), 1)
	require.Empty(t, b.claim(t, b.session, time.Second))
	admitted, err := b.store.AdmitOne(t.Context(), b.session, b.key, time.Second)
	require.NoError(t, err)
	require.Nil(t, admitted.Claimed)
	require.True(t, admitted.Done)
}

// TestNothingIsClaimedEarly: a run further away than the lead stays.
func TestNothingIsClaimedEarly(t *testing.T) {
	t.Parallel()
	b := setupFence(t, schedule.Spec{Every: "30s"})
	_, err := b.pool.Exec(t.Context(), `UPDATE run SET run_at = now() + interval '20 s'`)
	require.NoError(t, err)
	require.Empty(t, b.claim(t, b.session, time.Second))
	admitted, err := b.store.AdmitOne(t.Context(), b.session, b.key, time.Second)
	require.NoError(t, err)
	require.Nil(t, admitted.Claimed)
	require.Len(t, b.claim(t, b.session, 30*time.Second), 1)
}

// TestAnExpiredSessionClaimsNothing, even if it still owns the partition.
func TestAnExpiredSessionClaimsNothing(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	_, err := b.pool.Exec(t.Context(), `UPDATE session SET expires_at = now() - interval '1 ms'`)
	require.NoError(t, err)
	require.Empty(t, b.claim(t, b.session, time.Second))
	admitted, err := b.store.AdmitOne(t.Context(), b.session, b.key, time.Second)
	require.NoError(t, err)
	require.Nil(t, admitted.Claimed)
}

// TestRescueLeavesTheLivingAlone: only runs of dead sessions are lost.
func TestRescueLeavesTheLivingAlone(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	require.Len(t, b.claim(t, b.session, time.Second), 1)
	_, found, err := b.store.Rescue(t.Context(), []int16{b.key.Partition}, 10)
	require.NoError(t, err)
	require.Zero(t, found)
	require.NoError(t, b.store.Unregister(t.Context(), b.session))
	retries, found, err := b.store.Rescue(t.Context(), []int16{b.key.Partition}, 10)
	require.NoError(t, err)
	require.Equal(t, 1, found)
	require.Len(t, retries, 1)
}

// TestWhoDoesNotOwnAdmitsNothing: the partition got another owner before the admit.
func TestWhoDoesNotOwnAdmitsNothing(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	_, err := b.pool.Exec(t.Context(), `UPDATE partition SET owner = NULL, epoch = epoch + 1`)
	require.NoError(t, err)
	admitted, err := b.store.AdmitOne(t.Context(), b.session, b.key, time.Second)
	require.NoError(t, err)
	require.Nil(t, admitted.Claimed)
	require.Empty(t, b.claim(t, b.session, time.Second))
}

// TestPlanningAgainChangesNothing: a cursor that is behind its runs, as after a restore, meets them and continues.
func TestPlanningAgainChangesNothing(t *testing.T) {
	t.Parallel()
	b := setupFence(t, schedule.Spec{Every: "30s"})
	var before, after int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM run`).Scan(&before))
	_, err := b.pool.Exec(t.Context(), `UPDATE cursor SET next_due_at = (SELECT min(due_at) FROM run)`)
	require.NoError(t, err)
	planned, err := b.store.Plan(
		t.Context(), job.PlanParams{Partitions: []int16{b.key.Partition}, LookAhead: time.Minute, Cursors: 10},
	)
	require.NoError(t, err)
	require.Equal(t, 1, planned.Cursors)
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM run`).Scan(&after))
	require.InDelta(t, before, after, 1, "at most one that has come into the look-ahead meanwhile")
}

// TestOverlapIsDecidedWhenDue: while another run of the job is live, a run that is not due yet is neither skipped nor
// started.
func TestOverlapIsDecidedWhenDue(t *testing.T) {
	t.Parallel()
	b := setupFence(t, past)
	require.Len(t, b.claim(t, b.session, time.Second), 1)
	_, err := b.pool.Exec(t.Context(), `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
    needs_sweep)
SELECT partition, 1, version, job_id, now() + interval '50 s', now() + interval '50 s', 0, 0, 0, 0, 1, queue_id, true
FROM run`)
	require.NoError(t, err)
	next := b.key
	require.NoError(
		t, b.pool.QueryRow(t.Context(), `SELECT due_at, seq FROM run WHERE seq = 1`).Scan(&next.DueAt, &next.Seq),
	)
	admitted, err := b.store.AdmitOne(t.Context(), b.session, next, time.Minute)
	require.NoError(t, err)
	require.Nil(t, admitted.Claimed)
	require.False(t, admitted.Done, "it is asked about again")
	var skipped int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM run_history`).Scan(&skipped))
	require.Zero(t, skipped)

	_, err = b.pool.Exec(t.Context(), `UPDATE run SET run_at = now() WHERE seq = 1`)
	require.NoError(t, err)
	admitted, err = b.store.AdmitOne(t.Context(), b.session, next, time.Minute)
	require.NoError(t, err)
	require.True(t, admitted.Done)
	require.NoError(
		t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM run_history WHERE reason = 'overlap'`).Scan(&skipped),
	)
	require.Equal(t, 1, skipped, "now it is due, and the other one is live")
}
