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

// cutOff is a store of which so many answers are still to be lost: of claims that
// are committed, and of ends that are not.
type cutOff struct {
	*pgtest.Store
	claims, admits, ends atomic.Int32
	begun, gate          chan struct{} // a claim that has something tells and waits; nil: it does not
	onEnd                func(left int32)
	refused              atomic.Int32  // so many decisions are still to come to nothing
	asked                chan struct{} // questions about claims wait for it; nil: they do not
}

var errCut = errors.New("the connection died")

func (c *cutOff) ClaimDue(ctx context.Context, o job.PullClaimParams) (job.PullClaimResult, error) {
	out, err := c.Store.ClaimDue(ctx, o)
	if len(out.Claimed) > 0 && c.claims.Add(-1) >= 0 {
		return job.PullClaimResult{}, errCut
	}
	if c.begun != nil && len(out.Claimed) > 0 {
		c.begun <- struct{}{}
		<-c.gate
	}
	return out, err
}

func (c *cutOff) AdmitDue(ctx context.Context, queue int32, session uuid.UUID, due job.Due) (*job.Claimed, bool, error) {
	if c.refused.Add(-1) >= 0 {
		return nil, false, errCut
	}
	claimed, done, err := c.Store.AdmitDue(ctx, queue, session, due)
	if claimed != nil && c.admits.Add(-1) >= 0 {
		return nil, false, errCut
	}
	return claimed, done, err
}

func (c *cutOff) Claimed(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error) {
	if c.asked != nil {
		<-c.asked
	}
	return c.Store.Claimed(ctx, session, keys)
}

func (c *cutOff) CompletePulled(ctx context.Context, done []job.Completion) ([]job.GoneReason, error) {
	if n := c.ends.Add(-1); n >= 0 {
		if c.onEnd != nil {
			c.onEnd(n)
		}
		return nil, errCut
	}
	return c.Store.CompletePulled(ctx, done)
}

func (b *bundle) cut() *cutOff {
	store := &cutOff{Store: b.store}
	b.pull.Stop()
	b.pull = pull.New(pull.Options{Store: store, Sessions: b.store, Bound: b.bound, TTL: time.Minute, Log: b.pull.Log})
	b.t.Cleanup(b.pull.Stop)
	return store
}

// A decision whose answer was lost has leased a run to a session that lives and
// does not know it: nobody else would end it.
func TestADecisionWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.cut()
	store.admits.Store(1)
	store.ends.Store(2) // nor can it be given back at once
	// A deadline is a policy that only a decision can say yes to.
	key := b.trigger(b.job("a", "x", func(d *job.Definition) { d.Deadline = job.Duration(time.Hour) }))
	s := b.open()
	got := b.claim(s, 5, patience, "x")
	require.Negative(t, store.admits.Load())
	require.Len(t, got, 1)
	require.True(t, key.DueAt.Equal(got[0].Key.DueAt))
	require.EqualValues(t, 2, got[0].Number, "the first was given back")
	require.Equal(t, []job.GoneReason{""}, b.succeed(s, got...))
}

// What no worker was told of was not done: a run that is never tried twice is for
// the next worker, and one with a single attempt has it still.
func TestWhatNobodyWasToldOfCostsNothing(t *testing.T) {
	t.Parallel()
	once := func(d *job.Definition) { d.Delivery, d.Retry = job.AtMostOnce, job.Retry{MaxAttempts: 1} }
	for name, lose := range map[string]func(b *bundle, store *cutOff, s job.SessionPath){
		"the answer was lost": func(b *bundle, store *cutOff, s job.SessionPath) {
			store.admits.Store(job.LostLimit + 1)
			b.trigger(b.job("a", "x", func(d *job.Definition) { once(d); d.Deadline = job.Duration(time.Hour) }))
		},
		"the worker went away": func(b *bundle, store *cutOff, s job.SessionPath) {
			b.trigger(b.job("a", "x", once))
			for range job.LostLimit + 1 {
				store.begun, store.gate = make(chan struct{}), make(chan struct{})
				ctx, cancel := context.WithCancel(b.t.Context())
				over := make(chan error, 1)
				go func() {
					_, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: patience})
					over <- err
				}()
				select {
				case <-store.begun:
				case <-over:
					require.Fail(b.t, "the run is gone")
				}
				cancel()
				close(store.gate)
				require.ErrorIs(b.t, <-over, context.Canceled)
			}
			store.begun = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store, s := b.cut(), b.open()
			lose(b, store, s)
			got := b.claim(s, 1, patience, "x")
			require.Len(t, got, 1)
			require.EqualValues(t, job.LostLimit+2, got[0].Number, "the number fences, and goes on")
			require.Zero(t, b.number(`SELECT count(*) FROM dead_letter`))
			b.report(s, got[0], job.Outcome{Kind: job.Failed, Retryable: true})
			require.Equal(t, 1, b.number(`SELECT count(*) FROM dead_letter WHERE reason = 'attempts'`), "it has one attempt")
		})
	}
}

// A decision that came to nothing is not known to: until it is, nobody else asks
// about the run, or what its worker has by then would be taken for it.
func TestADoubtEndsNoOtherAttempt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*job.Definition){
		"undecided": func(d *job.Definition) { d.Deadline = job.Duration(time.Hour) },
		"waiting":   func(d *job.Definition) { d.Overlap = job.OverlapQueueAll },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store := b.cut()
			id := b.job("a", "x", change)
			s := b.open()
			if name == "waiting" {
				b.trigger(id)
				first := b.claim(s, 1, patience, "x")
				b.trigger(id)
				require.Empty(t, b.claim(s, 1, 300*time.Millisecond, "x"))
				store.refused.Store(1)
				b.succeed(s, first...)
			} else {
				store.refused.Store(1)
				b.trigger(id)
			}
			store.asked = make(chan struct{})
			over := make(chan []job.Claimed, 1)
			go func() { over <- b.claim(s, 5, patience, "x") }()
			b.waiting(1)
			looks := b.pull.Counts().Looks + 10 // longer than a parked run waits
			require.Eventually(t, func() bool { return b.pull.Counts().Looks >= looks || len(over) > 0 }, patience, pause)
			require.Empty(t, over, "it was given out, and what became of it before is not known")
			other := b.job("b", "x", nil)
			b.trigger(other)
			got := <-over
			require.Len(t, got, 1)
			require.Equal(t, other, got[0].Key.Job, "others are")
			close(store.asked) // now the database answers
			got = b.claim(s, 5, patience, "x")
			require.Len(t, got, 1)
			require.Equal(t, id, got[0].Key.Job)
			require.Negative(t, store.refused.Load())
			require.Equal(t, []job.GoneReason{""}, b.succeed(s, got...))
		})
	}
}

// A run without an idempotency key fails, though the database is away just then.
func TestARunWithoutAKeyEndsThoughTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := b.cut()
	store.ends.Store(3)
	b.trigger(b.job("a", "x", func(d *job.Definition) { d.IdempotencyKey = `payload.customer` }))
	require.Empty(t, b.claim(b.open(), 5, time.Second, "x"))
	require.Eventually(t, func() bool { return b.number(`SELECT count(*) FROM run_history WHERE reason = 'rejected'`) == 1 }, patience, pause)
	require.Negative(t, store.ends.Load())
}

// A node that stops while the database is away tries once more, and says what it
// leaves behind.
func TestAStoppedNodeTriesOnceMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends   int32 // that fail: the first is of the claim, and the node stops in the second
		ended  int
		logged string
	}{
		"it comes back": {2, 1, ""},
		"it does not":   {1000, 0, "runs=1 because=\"the node stops: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			store, log := b.cut(), &lines{}
			b.pull.Log = slog.New(slog.NewTextHandler(log, nil))
			store.ends.Store(c.ends)
			store.onEnd = func(left int32) {
				if left == c.ends-2 {
					b.pull.Stop()
				}
			}
			b.trigger(b.job("a", "x", func(d *job.Definition) { d.IdempotencyKey = `payload.customer` }))
			require.Empty(t, b.claim(b.open(), 5, time.Second, "x"))
			require.Eventually(t, func() bool { return b.number(`SELECT count(*) FROM run_history`) == c.ended && log.has(c.logged) }, patience, pause)
			require.Equal(t, max(c.ends-3, -1), store.ends.Load(), "three in all")
		})
	}
}

// lines is what was logged.
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

// A claim whose answer was lost: the worker hears so, and its next session ends
// the one that has the run.
func TestAClaimWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cut().claims.Store(1)
	b.trigger(b.job("a", "x", nil))
	old := b.open()
	_, err := b.pull.Claim(t.Context(), old, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: patience})
	require.ErrorIs(t, err, errCut)
	s, err := b.pull.Open(t.Context(), job.SessionParams{Namespace: access.DefaultNamespace, Queue: "work", Name: "w", Adopt: old.ID})
	require.NoError(t, err)
	_, found, err := b.store.RescueWorkers(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, found)
	now := job.SessionPath{Namespace: old.Namespace, Queue: old.Queue, ID: s.ID}
	require.Len(t, b.claim(now, 1, patience, "x"), 1, "at once")
}
