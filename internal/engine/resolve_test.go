package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// cutOff is a store that loses the replies to the first claims: they commit, and then the connection dies.
type cutOff struct {
	*pgtest.Store
	claims, admits, waiting atomic.Int32
}

var errCut = errors.New("the connection died")

func (c *cutOff) Claim(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Attempt, error) {
	attempts, err := c.Store.Claim(ctx, session, keys, lead)
	if len(attempts) > 0 && c.claims.Add(1) == 1 {
		return nil, errCut
	}
	return attempts, err
}

func (c *cutOff) Admit(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Admitted, error) {
	out, err := c.Store.Admit(ctx, session, keys, lead)
	return cutFirst(out, err, &c.admits)
}

func (c *cutOff) AdmitWaiting(ctx context.Context, session uuid.UUID, runs []job.Run) ([]job.Admitted, error) {
	out, err := c.Store.AdmitWaiting(ctx, session, runs)
	return cutFirst(out, err, &c.waiting)
}

// cutFirst loses the first reply that says that a run has started.
func cutFirst(out []job.Admitted, err error, replies *atomic.Int32) ([]job.Admitted, error) {
	if slices.ContainsFunc(out, func(a job.Admitted) bool { return a.Claimed != nil }) && replies.Add(1) == 1 {
		return nil, errCut
	}
	return out, err
}

// A claim whose reply is lost leases runs to a live session, so no other node delivers them.
func TestClaimsWhoseReplyWasLostAreDelivered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &cutOff{Store: b.store}
	b.engine.Claimer, b.engine.Limits = store, store
	soon := schedule.Spec{At: b.bound.Now().Add(time.Second).UTC().Format(time.RFC3339)}
	b.create(t, "claimed", soon, nil)
	admitted := b.create(t, "admitted", soon, nil)
	for _, sql := range []string{
		`UPDATE job SET admit = 2 /* no run meets it */ WHERE id = $1`, `UPDATE run SET admit = 2 WHERE job_id = $1`,
	} {
		_, err := b.pool.Exec(t.Context(), sql, admitted.ID)
		require.NoError(t, err)
	}
	b.create(t, "waiting", soon, func(d *job.Definition) { d.Concurrency.Key = "k" })
	b.start(t)
	b.eventually(t, "delivered, at the first attempt", `
SELECT count(*) FROM run_history WHERE ended = 1 AND attempt = 1`, 3)
	require.Equal(t, 3, b.target.count())
	require.Positive(t, store.claims.Load())
	require.Positive(t, store.admits.Load())
	require.Positive(t, store.waiting.Load())
}

// listsTwice lists a run that was claimed for the sweep once more, as a reply that was read before the claim
// committed can, and cuts off the claim that follows.
type listsTwice struct {
	*pgtest.Store
	mu      sync.Mutex
	claimed []job.Attempt
	listed  bool
	cut     chan struct{} // closed when the claim that was cut off is resolved

	once, resolved sync.Once
}

func (s *listsTwice) Sweep(ctx context.Context, in job.SweepParams) ([]job.Run, error) {
	runs, err := s.Store.Sweep(ctx, in)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.claimed) > 0 && !s.listed {
		s.listed = true
		runs = append(runs, job.Run{Key: s.claimed[0].Key, RunAt: s.claimed[0].RunAt})
	}
	return runs, err
}

func (s *listsTwice) Claim(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Attempt, error) {
	attempts, err := s.Store.Claim(ctx, session, keys, lead)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed = append(s.claimed, attempts...)
	if s.listed && len(attempts) == 0 && err == nil {
		failed := false
		s.once.Do(func() { failed = true })
		if failed {
			return nil, errCut
		}
	}
	return attempts, err
}

func (s *listsTwice) ResolveClaim(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error) {
	attempts, err := s.Store.ResolveClaim(ctx, session, keys)
	s.resolved.Do(func() { close(s.cut) })
	return attempts, err
}

// TestAnAttemptInFlightIsNotDeliveredAgain: a claim whose reply is lost is resolved by asking what is leased to the
// session. A run that an earlier claim started is leased too, and is being delivered.
func TestAnAttemptInFlightIsNotDeliveredAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &listsTwice{Store: b.store, cut: make(chan struct{})}
	b.engine.Claimer, b.engine.Planner = store, store
	target := blocking{started: make(chan job.Attempt, 10), release: make(chan struct{})}
	b.engine.Targets["record"] = target
	soon := func() schedule.Spec {
		return schedule.Spec{At: b.bound.Now().Add(time.Second).UTC().Format(time.RFC3339)}
	}
	b.create(t, "first", soon(), nil)
	b.start(t)
	t.Cleanup(sync.OnceFunc(func() { close(target.release) })) // before the engine stops
	first := <-target.started
	<-store.cut
	b.create(t, "next", soon(), nil)
	next := <-target.started
	require.NotEqual(t, first.Key.Job, next.Key.Job, "attempt %d of %d", next.Number, first.Number)
}

// blocking is a target that says what it started, and ends when it is released.
type blocking struct {
	started chan job.Attempt
	release chan struct{}
}

func (b blocking) Deliver(_ context.Context, a job.Attempt) job.Outcome {
	b.started <- a
	<-b.release
	return job.Outcome{Kind: job.Succeeded}
}

// repeats returns the first attempt that was claimed in reply to a second claim too, as a standby that had not got the
// first claim would after a failover.
type repeats struct {
	*pgtest.Store
	mu    sync.Mutex
	first []job.Attempt
	again chan struct{} // closed when the attempt was returned again
}

func (s *repeats) Claim(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Attempt, error) {
	attempts, err := s.Store.Claim(ctx, session, keys, lead)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = attempts
	} else if len(attempts) > 0 {
		attempts = append(attempts, s.first...)
		s.first = []job.Attempt{}
		close(s.again)
	}
	return attempts, err
}

// TestARepeatedClaimKeepsNoSlot: an attempt that is in flight is not delivered again, and the slot that its second claim
// took is free again.
func TestARepeatedClaimKeepsNoSlot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &repeats{Store: b.store, again: make(chan struct{})}
	b.engine.Claimer = store
	target := blocking{started: make(chan job.Attempt, 10), release: make(chan struct{})}
	b.engine.Targets["record"] = target
	free := b.engine.Counts().Free
	b.create(t, "first", schedule.Spec{At: b.bound.Now().Add(time.Second).UTC().Format(time.RFC3339)}, nil)
	b.start(t)
	release := sync.OnceFunc(func() { close(target.release) })
	t.Cleanup(release) // before the engine stops
	first := <-target.started
	b.create(t, "next", schedule.Spec{At: b.bound.Now().Add(time.Second).UTC().Format(time.RFC3339)}, nil)
	next := <-target.started
	<-store.again
	require.NotEqual(t, first.Key.Job, next.Key.Job)
	release()
	b.eventually(t, "both end", `SELECT count(*) FROM run_history WHERE ended = 1`, 2)
	require.Eventually(t, func() bool { return b.engine.Counts().Free == free }, time.Minute, time.Millisecond)
}

// failsOver loses the reply to a claim because the database fails over, and resolves the claim when a round of the
// rescue has ended.
type failsOver struct {
	cutOff
	failOver func()
	leased   atomic.Int32
	round    chan struct{} // closed when the first round has ended
	ended    sync.Once
}

func (s *failsOver) ResolveClaim(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error) {
	s.failOver()
	select {
	case <-ctx.Done():
	case <-s.round:
	}
	return s.Store.ResolveClaim(ctx, session, keys)
}

func (s *failsOver) Leased(ctx context.Context, session uuid.UUID, limit int) ([]job.Completion, error) {
	if s.leased.Add(1) == 2 {
		s.ended.Do(func() { close(s.round) })
	}
	return s.Store.Leased(ctx, session, limit)
}

func (s *failsOver) CompleteDecided(ctx context.Context, done []job.Completion) ([]job.Run, int, error) {
	retries, fenced, err := s.Store.CompleteDecided(ctx, done)
	s.ended.Do(func() { close(s.round) })
	return retries, fenced, err
}

// TestAFailoverDoesNotEndAnUnresolvedClaim: the node does not know yet that it has the run. A run that must not be
// delivered twice would never be delivered.
func TestAFailoverDoesNotEndAnUnresolvedClaim(t *testing.T) {
	t.Parallel()
	for name, deadline := range map[string]job.Duration{
		"claimed":  0,
		"admitted": job.Duration(time.Hour), // only Admit decides about a deadline
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := &failsOver{cutOff: cutOff{Store: b.store}, round: make(chan struct{})}
			store.failOver = sync.OnceFunc(func() {
				b.engine.FailedOver(job.Failover{})
			})
			b.engine.Claimer, b.engine.Completer, b.engine.Leases = store, store, store
			soon := schedule.Spec{At: b.bound.Now().Add(time.Second).UTC().Format(time.RFC3339)}
			b.create(t, name, soon, func(d *job.Definition) { d.Delivery, d.Deadline = job.AtMostOnce, deadline })
			b.start(t)
			b.eventually(t, "ended", `SELECT count(*) FROM run_history`, 1)
			require.Equal(t, 1, b.target.count(), "deliveries")
			b.eventually(t, "succeeded, at the first attempt", `
SELECT count(*) FROM run_history WHERE ended = 1 AND attempt = 1`, 1)
		})
	}
}
