package pull_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
)

var errConnection = errors.New("connection reset")

// lossyStore loses replies and fails calls. Each counter says how many calls are still to fail.
type lossyStore struct {
	*pgtest.Store
	claims, admits atomic.Int32 // these commit, and the reply is lost
	keys           atomic.Int32 // these do not commit
	admitsFailed   atomic.Int32 // these do not commit
	completes      atomic.Int32 // these do not commit
	alone          atomic.Bool  // each run has to be decided alone
	refused        atomic.Int32 // counts admissions of runs that may not start yet
	onComplete     func(left int32)
	// A claim that got runs signals begun and waits for gate. Nil: it does not.
	begun, gate chan struct{}
	// Questions about claims wait until this is closed. Nil: they do not.
	answers chan struct{}
}

func (s *lossyStore) PullClaim(ctx context.Context, o job.PullClaimParams) (job.PullClaimResult, error) {
	if s.alone.Load() {
		o.Waits = func(job.Due) bool { return true }
	}
	out, err := s.Store.PullClaim(ctx, o)
	if s.alone.Load() {
		for _, r := range out.Refused {
			out.Undecided = append(out.Undecided, r.Due)
		}
		out.Refused = nil
	}
	if len(out.Claimed) > 0 && s.claims.Add(-1) >= 0 {
		return job.PullClaimResult{}, errConnection
	}
	if s.begun != nil && len(out.Claimed) > 0 {
		s.begun <- struct{}{}
		<-s.gate
	}
	return out, err
}

func (s *lossyStore) PullKeepKeys(
	ctx context.Context, namespace uuid.UUID, queue int32, attempts []*job.Attempt,
) error {
	if s.keys.Add(-1) >= 0 {
		return errConnection
	}
	return s.Store.PullKeepKeys(ctx, namespace, queue, attempts)
}

func (s *lossyStore) PullAdmit(
	ctx context.Context, namespace uuid.UUID, queue int32, session uuid.UUID, due job.Due,
) (job.Admitted, error) {
	if s.admitsFailed.Add(-1) >= 0 {
		return job.Admitted{}, errConnection
	}
	out, err := s.Store.PullAdmit(ctx, namespace, queue, session, due)
	if out.Claimed != nil && s.admits.Add(-1) >= 0 {
		return job.Admitted{}, errConnection
	}
	if !out.Done && err == nil {
		s.refused.Add(1)
	}
	return out, err
}

func (s *lossyStore) ResolveClaim(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error) {
	if s.answers != nil {
		<-s.answers
	}
	return s.Store.ResolveClaim(ctx, session, keys)
}

func (s *lossyStore) CompletePulled(ctx context.Context, done []job.Completion) ([]job.Reported, error) {
	if n := s.completes.Add(-1); n >= 0 {
		if s.onComplete != nil {
			s.onComplete(n)
		}
		return nil, errConnection
	}
	return s.Store.CompletePulled(ctx, done)
}

// lossy restarts the node on a store that loses replies.
func (b *bundle) lossy() *lossyStore {
	store := &lossyStore{Store: b.store}
	b.pull.Stop()
	b.pull = pull.New(pull.Options{
		Store: store, Sessions: b.store, Bound: b.bound, TTL: time.Minute, Log: b.pull.Log,
	})
	b.t.Cleanup(b.pull.Stop)
	return store
}

// The reply to a claim is lost. The worker gets an error, and its next session replaces the one that has the run.
func TestLostReplyToAClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lossy().claims.Store(1)
	b.trigger(b.job("a", "x", nil))
	old := b.open()
	_, err := b.pull.Claim(t.Context(), old, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: patience})
	require.ErrorIs(t, err, errConnection)
	s, err := b.pull.Open(t.Context(), job.SessionParams{
		Namespace: access.DefaultNamespace, Queue: "work", Name: "w", Adopt: old.ID,
	})
	require.NoError(t, err)
	require.Equal(t, 1, b.rescued())
	now := job.SessionPath{Namespace: old.Namespace, Queue: old.Queue, ID: s.ID}
	require.Len(t, b.claim(now, 1, patience, "x"), 1, "immediately")
}

// The reply to an admission is lost. It has leased a run to a live session whose worker does not know about it, so
// the node has to return it.
func TestLostReplyToAnAdmission(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.lossy()
	store.alone.Store(true)
	store.admits.Store(1)
	store.completes.Store(2) // the run cannot be returned at the first attempt
	key := b.trigger(b.job("a", "x", nil))
	s := b.open()
	got := b.claim(s, 5, patience, "x")
	require.Negative(t, store.admits.Load())
	require.Len(t, got, 1)
	require.True(t, key.DueAt.Equal(got[0].Key.DueAt))
	require.EqualValues(t, 2, got[0].Number, "the first attempt was returned")
	require.Equal(t, []job.GoneReason{""}, b.succeed(s, got...))
}

// Returning an undelivered run does not count as an attempt: a run with at_most_once and a single attempt still
// has it.
func TestUndeliveredRunsKeepTheirAttempts(t *testing.T) {
	t.Parallel()
	once := func(d *job.Definition) { d.Delivery, d.Retry = job.AtMostOnce, job.Retry{MaxAttempts: 1} }
	for name, lose := range map[string]func(b *bundle, store *lossyStore, s job.SessionPath){
		"the reply was lost": func(b *bundle, store *lossyStore, s job.SessionPath) {
			store.admits.Store(job.LostLimit + 1)
			store.alone.Store(true)
			b.trigger(b.job("a", "x", once))
		},
		"the worker disconnected": func(b *bundle, store *lossyStore, s job.SessionPath) {
			b.trigger(b.job("a", "x", once))
			for range job.LostLimit + 1 {
				b.disconnectDuringClaim(store, s)
			}
			store.begun = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store, s := b.lossy(), b.open()
			lose(b, store, s)
			got := b.claim(s, 1, patience, "x")
			require.Len(t, got, 1)
			require.EqualValues(t, job.LostLimit+2, got[0].Number, "the number is a fence, so it still grows")
			require.Zero(t, b.number(`SELECT count(*) FROM dead_letter`))
			b.report(s, got[0], job.Outcome{Kind: job.Failed, Retryable: true})
			exhausted := `SELECT count(*) FROM dead_letter WHERE reason = 'attempts'`
			require.Equal(t, 1, b.number(exhausted), "it has one attempt")
		})
	}
}

// disconnectDuringClaim cancels a poll when a claim has leased runs to it and has not replied yet.
func (b *bundle) disconnectDuringClaim(store *lossyStore, s job.SessionPath) {
	b.t.Helper()
	store.begun, store.gate = make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: patience})
		done <- err
	}()
	select {
	case <-store.begun:
	case <-done:
		require.Fail(b.t, "the run is gone")
	}
	cancel()
	close(store.gate)
	require.ErrorIs(b.t, <-done, context.Canceled)
}

// An admission failed without a commit, and the node does not know that yet. Until it does, it must not claim the
// run again: if the same session got it, resolving would take the new attempt for the old one and return it.
func TestAnUnresolvedClaimEndsNoOtherAttempt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*job.Definition){
		"undecided": nil,
		"blocked":   func(d *job.Definition) { d.Overlap = job.OverlapQueueAll },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.lossy()
			id := b.job("a", "x", change)
			s := b.open()
			if name == "blocked" {
				b.trigger(id)
				first := b.claim(s, 1, patience, "x")
				b.trigger(id)
				refused := store.refused.Load()
				end := b.polling(s, 1, "x")
				require.Eventually(t, func() bool { return store.refused.Load() > refused }, patience, pause)
				require.Empty(t, end())
				store.admitsFailed.Store(1)
				b.succeed(s, first...)
			} else {
				store.admitsFailed.Store(1)
				store.alone.Store(true)
				b.trigger(id)
			}
			store.answers = make(chan struct{})
			replied := make(chan []job.Claimed, 1)
			go func() { replied <- b.claim(s, 5, patience, "x") }()
			b.waiting(1)
			scans := b.pull.Counts().Scans + 10 // longer than a blocked run waits
			require.Eventually(t, func() bool {
				return b.pull.Counts().Scans >= scans || len(replied) > 0
			}, patience, pause)
			require.Empty(t, replied, "the run was claimed again before its first claim was resolved")
			other := b.job("b", "x", nil)
			b.trigger(other)
			got := <-replied
			require.Len(t, got, 1)
			require.Equal(t, other, got[0].Key.Job, "other runs are claimed meanwhile")
			close(store.answers)
			got = b.claim(s, 5, patience, "x")
			require.Len(t, got, 1)
			require.Equal(t, id, got[0].Key.Job)
			require.Negative(t, store.admitsFailed.Load())
			require.Equal(t, []job.GoneReason{""}, b.succeed(s, got...))
		})
	}
}

// A run whose idempotency key cannot be computed fails, although the database is unreachable at first.
func TestARunWithoutAKeyFailsOnceTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.lossy()
	store.completes.Store(3)
	b.trigger(b.job("a", "x", func(d *job.Definition) { d.IdempotencyKey = `payload.customer` }))
	end := b.polling(b.open(), 5, "x")
	rejected := func() bool { return b.number(`SELECT count(*) FROM run_history WHERE reason = 'rejected'`) == 1 }
	require.Eventually(t, rejected, patience, pause)
	require.Empty(t, end())
	require.Negative(t, store.completes.Load())
}

// A node that stops while the database is unreachable retries once more, and logs what it leaves behind.
func TestAStoppedNodeRetriesOnceMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		completes int32 // that fail. The first is in the claim, and the node stops in the second
		ended     int
		logged    string
	}{
		"the database is back":        {2, 1, ""},
		"the database is unreachable": {1000, 0, "runs=1 reason=\"the node is stopping: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store, log := b.lossy(), &lines{}
			b.pull.Log = slog.New(slog.NewTextHandler(log, nil))
			store.completes.Store(c.completes)
			store.onComplete = func(left int32) {
				if left == c.completes-2 {
					b.pull.Stop()
				}
			}
			b.trigger(b.job("a", "x", func(d *job.Definition) { d.IdempotencyKey = `payload.customer` }))
			end := b.polling(b.open(), 5, "x")
			threeCalls := max(c.completes-3, -1) // left
			require.Eventually(t, func() bool {
				return b.number(`SELECT count(*) FROM run_history`) == c.ended && log.has(c.logged) &&
					store.completes.Load() <= threeCalls
			}, patience, pause)
			require.Empty(t, end())
			require.Equal(t, threeCalls, store.completes.Load(), "three calls in all")
		})
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}
