package postgres_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// overtaken calls do while another transaction has written two live runs and not committed yet. do waits for their
// locks, and then meets row versions that its statement did not see when it began.
func (b *limits) overtaken(do func() error) {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	_, err = tx.Exec(b.t.Context(), `UPDATE run SET needs_sweep = needs_sweep
		WHERE ctid = ANY (ARRAY(SELECT ctid FROM run WHERE state <> 0 LIMIT 2))`)
	require.NoError(b.t, err)
	done := make(chan error, 1)
	go func() { done <- do() }()
	require.Eventually(b.t, func() bool {
		var waits bool
		require.NoError(
			b.t,
			b.pool.QueryRow(b.t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock')`).
				Scan(&waits),
		)
		return waits
	}, time.Minute, 5*time.Millisecond)
	require.NoError(b.t, tx.Commit(b.t.Context()))
	require.NoError(b.t, <-done)
}

func (b *limits) claimAll(n int) (attempts []job.Attempt) {
	b.t.Helper()
	attempts, err := b.store.Claim(b.t.Context(), b.session, b.due(n, nil), time.Second)
	require.NoError(b.t, err)
	require.Len(b.t, attempts, n)
	return attempts
}

func succeeded(attempts []job.Attempt) (done []job.Completion) {
	for _, a := range attempts {
		done = append(done, a.Completion(job.Outcome{Kind: job.Succeeded}))
	}
	return done
}

// TestASuccessThatWasOvertakenEnds: otherwise the run stays leased to a live session that has forgotten it.
func TestASuccessThatWasOvertakenEnds(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	var counted entered
	var ends []job.End
	b.store = pgtest.StoreOf(postgres.New(b.pool, postgres.Options{
		Observer: &counted, OnEnded: func(e []job.End) { ends = append(ends, e...) },
	}))
	done := succeeded(b.claimAll(3))
	stale := done[0]
	stale.Attempt++
	fenced := 0
	b.overtaken(func() (err error) {
		fenced, err = b.store.CompleteSucceeded(t.Context(), append(done, stale))
		return err
	})
	require.Equal(t, 1, fenced, "the stale one")
	require.Zero(t, b.running())
	require.Equal(t, 3, b.count(`run_history WHERE ended = 1`))
	require.EqualValues(t, 3, counted.succeeded, "each is counted once")
	traced, err := b.store.TraceRuns(t.Context(), ends)
	require.NoError(t, err)
	require.Len(t, traced, 3, "and traced once, although another one of the batch was fenced")

	// What has ended is fenced, and does not end again.
	fenced, err = b.store.CompleteSucceeded(t.Context(), done)
	require.NoError(t, err)
	require.Equal(t, 3, fenced)
	require.Equal(t, 3, b.count(`run_history`))
	require.EqualValues(t, 3, counted.succeeded)
}

// entered counts what the ledger reports.
type entered struct{ succeeded int64 }

func (e *entered) Entered(_ int32, how job.Ended, _ job.Reason, n int64) {
	if how == job.EndedSucceeded {
		e.succeeded += n
	}
}

func (e *entered) Skipped(uuid.UUID, job.Reason, int64) {}

func (e *entered) Refused(string) {}

// TestAnUnresolvedClaimThatWasOvertakenIsFound: no other node would deliver it.
func TestAnUnresolvedClaimThatWasOvertakenIsFound(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	attempts := b.claimAll(3)
	var keys []job.Key
	for _, a := range attempts {
		keys = append(keys, a.Key)
	}
	var found []job.Attempt
	b.overtaken(func() (err error) {
		found, err = b.store.ResolveClaim(t.Context(), b.session, keys)
		return err
	})
	require.Len(t, found, 3)
}

// TestALimitTakesInWhatOvertookIt: an attempt that is accepted at the same time counts too.
func TestALimitTakesInWhatOvertookIt(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	b.claimAll(3)
	b.overtaken(func() error {
		return b.store.LimitQueue(t.Context(), job.QueueParams{
			Namespace: b.namespace,
			Name:      "narrow",
			Limits:    job.QueueLimits{MaxRunning: 5},
			Actor:     "ann",
		})
	})
	b.exact()
}

// TestALimitAmongCompletions: runs end while a new limit counts them. None is lost, and no permit is left.
func TestALimitAmongCompletions(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	attempts := b.claimAll(300)
	var all sync.WaitGroup
	errs := make(chan error, 100)
	all.Go(func() {
		errs <- b.store.LimitQueue(t.Context(), job.QueueParams{
			Namespace: b.namespace, Name: "narrow", Limits: job.QueueLimits{MaxRunning: 500}, Actor: "ann",
		})
	})
	for w := range 4 {
		all.Go(func() {
			for i := w * 75; i < (w+1)*75; i += 5 {
				fenced, err := b.store.CompleteSucceeded(t.Context(), succeeded(attempts[i:i+5]))
				if err == nil && fenced > 0 {
					err = errors.New("fenced")
				}
				errs <- err
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Zero(t, b.running())
	b.exact()
}

// TestAWorkersSuccessThatWasOvertakenIsTaken: for example by the progress of its heartbeat. A stale report is still
// refused.
func TestAWorkersSuccessThatWasOvertakenIsTaken(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	done := succeeded(b.claimAll(3))
	for i := range done {
		done[i].Session, done[i].Namespace = b.session, b.namespace
	}
	stale := done[0]
	stale.Session = uuid.New()
	b.exec(`UPDATE run SET claimed_at = claimed_at - interval '1 h', run_at = run_at - interval '1 h'`)
	var out []job.Reported
	b.overtaken(func() (err error) {
		out, err = b.store.CompletePulled(t.Context(), append(done, stale))
		return err
	})
	for _, r := range out[:3] {
		require.Empty(t, r.Rejected)
		require.Greater(t, r.Took, time.Hour)
	}
	require.NotEmpty(t, out[3].Rejected)
	require.Zero(t, out[3].Took)
	require.Zero(t, b.running())
	require.Equal(t, 3, b.count(`run_history WHERE ended = 1`))
}
