package pull

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/job"
)

const maxCallsOf = maxCalls * 3 / 4 // of one namespace

// stuckStore does not answer calls of one namespace before its end. It counts those that are under way.
type stuckStore struct {
	stuck    uuid.UUID
	end      chan struct{}
	underWay atomic.Int32
}

func (s *stuckStore) wait(namespace uuid.UUID) {
	if namespace == s.stuck {
		s.underWay.Add(1)
		defer s.underWay.Add(-1)
		<-s.end
	}
}

func (s *stuckStore) OpenSession(_ context.Context, o job.SessionParams) (job.WorkerSession, []job.Gone, error) {
	s.wait(o.Namespace)
	return job.WorkerSession{ID: uuid.New(), Namespace: o.Namespace, QueueName: o.Queue}, nil, nil
}

func (s *stuckStore) WorkerSession(
	_ context.Context, namespace uuid.UUID, queue string, id uuid.UUID,
) (job.WorkerSession, error) {
	s.wait(namespace)
	return job.WorkerSession{ID: id, Namespace: namespace, QueueName: queue}, nil
}

func (s *stuckStore) Heartbeat(
	_ context.Context, w job.WorkerSession, _ time.Duration, _ []job.Lease,
) (time.Time, []job.Gone, error) {
	s.wait(w.Namespace)
	return time.Time{}, nil, nil
}

func (s *stuckStore) EndSession(_ context.Context, w job.WorkerSession) error {
	s.wait(w.Namespace)
	return nil
}

func (s *stuckStore) NoteHandlers(_ context.Context, w job.WorkerSession, _ []string) error {
	s.wait(w.Namespace)
	return nil
}

// TestCallsAboutSessionsAreDivided: whatever the workers of a namespace send, it has a few database calls under way,
// and those of another namespace are sent at once.
func TestCallsAboutSessionsAreDivided(t *testing.T) {
	t.Parallel()
	attacker, victim := uuid.New(), uuid.New()
	known := job.WorkerSession{ID: uuid.New(), Namespace: attacker, QueueName: "q"}
	path := job.SessionPath{Namespace: attacker, Queue: "q", ID: known.ID}
	unknown := func() job.SessionPath { return job.SessionPath{Namespace: attacker, Queue: "q", ID: uuid.New()} }
	for name, attack := range map[string]func(context.Context, *Puller){
		"open":      func(ctx context.Context, p *Puller) { _, _ = p.Open(ctx, job.SessionParams{Namespace: attacker}) },
		"heartbeat": func(ctx context.Context, p *Puller) { _, _ = p.Heartbeat(ctx, path, nil) },
		"end":       func(ctx context.Context, p *Puller) { _ = p.End(ctx, path) },
		"claim": func(ctx context.Context, p *Puller) {
			_, _ = p.Claim(ctx, path, job.PullParams{Handlers: []string{uuid.NewString()}})
		},
		"invented claim": func(ctx context.Context, p *Puller) { _, _ = p.Claim(ctx, unknown(), job.PullParams{}) },
		"invented beat":  func(ctx context.Context, p *Puller) { _, _ = p.Heartbeat(ctx, unknown(), nil) },
		"invented end":   func(ctx context.Context, p *Puller) { _ = p.End(ctx, unknown()) },
		"report":         func(ctx context.Context, p *Puller) { _, _ = p.Complete(ctx, unknown(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &stuckStore{stuck: attacker, end: make(chan struct{})}
				p := New(Options{Sessions: s, Handlers: s})
				p.stopped = true // a claim does not wait for runs
				ctx, cancel := context.WithCancel(t.Context())
				for range 100 {
					go func() {
						p.known.add(known)
						attack(ctx, p)
					}()
				}
				synctest.Wait()
				require.EqualValues(t, maxCallsOf, s.underWay.Load())
				opened, err := p.Open(ctx, job.SessionParams{Namespace: victim, Queue: "q"}) // would wait for ever
				require.NoError(t, err)
				_, err = p.Heartbeat(ctx, job.SessionPath{Namespace: victim, Queue: "q", ID: opened.ID}, nil)
				require.NoError(t, err)
				cancel()
				close(s.end)
				<-time.After(time.Second) // until the loop of reports has ended
				require.Zero(t, s.underWay.Load())
				require.Empty(t, p.calls.all, "each slot is released")
				require.Empty(t, p.calls.of[attacker])
			})
		})
	}
}

// TestWorkersLeaveConnectionsToTheEngine: a quarter of them, however few there are. One namespace leaves some of the
// others to workers of the rest.
func TestWorkersLeaveConnectionsToTheEngine(t *testing.T) {
	t.Parallel()
	for connections := 4; connections <= 40; connections++ {
		p := New(Options{Connections: connections})
		claims, calls := cap(p.claims.all), cap(p.calls.all)
		require.Positive(t, claims)
		require.Greater(t, calls, p.calls.most)
		require.GreaterOrEqual(t, 4*(connections-claims-calls), connections)
	}
	usual := New(Options{Connections: int(config.Default().Connections)})
	require.Equal(t, []int{4, 3, 8, 6},
		[]int{cap(usual.claims.all), usual.claims.most, cap(usual.calls.all), usual.calls.most})
}

// TestAClaimKeepsItsRequestSlotUntilItWaits: what it writes before is not done by a request that counts nowhere.
func TestAClaimKeepsItsRequestSlotUntilItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := job.SessionPath{Namespace: uuid.New(), Queue: "q", ID: uuid.New()}
		s := &stuckStore{stuck: at.Namespace, end: make(chan struct{})}
		p := New(Options{Sessions: s, Handlers: s})
		p.stopped = true
		waits := false
		o := job.PullParams{Handlers: []string{"x"}, Waits: func() <-chan struct{} {
			waits = true
			return nil
		}}
		go func() { _, _ = p.Claim(t.Context(), at, o) }()
		for range 2 { // the session is read, and the handler is stored
			synctest.Wait()
			require.EqualValues(t, 1, s.underWay.Load())
			require.False(t, waits)
			s.end <- struct{}{}
		}
		synctest.Wait()
		require.True(t, waits)
	})
}

// TestACallDoesNotWaitLongForASlot: neither a request without a limit of its own, nor a heartbeat, which needs time for
// the call itself.
func TestACallDoesNotWaitLongForASlot(t *testing.T) {
	t.Parallel()
	require.Less(t, callWait, heartbeatLimit)
	synctest.Test(t, func(t *testing.T) { // a wait takes exactly its time
		at := job.SessionPath{Namespace: uuid.New(), Queue: "q", ID: uuid.New()}
		s := &stuckStore{stuck: at.Namespace, end: make(chan struct{})}
		p := New(Options{Sessions: s})
		_, err := p.Open(t.Context(), job.SessionParams{Namespace: uuid.New()})
		require.NoError(t, err)
		for range maxCallsOf {
			go func() { _, _ = p.Open(t.Context(), job.SessionParams{Namespace: at.Namespace}) }()
		}
		synctest.Wait()
		for name, call := range map[string]func() error{
			"heartbeat": func() error { _, err := p.Heartbeat(t.Context(), at, nil); return err },
			"open": func() error {
				_, err := p.Open(t.Context(), job.SessionParams{Namespace: at.Namespace}) // would wait for ever
				return err
			},
		} {
			begun := clock.Elapsed()
			require.ErrorIs(t, call(), context.DeadlineExceeded, name)
			require.Equal(t, callWait, clock.Elapsed()-begun, name)
		}
		close(s.end)
	})
}

// TestACallThatWaitsInVainSaysWhy: a worker keeps its runs while the database does not answer. If it answers others,
// the worker's session expires, so the worker must know.
func TestACallThatWaitsInVainSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stuck, other := uuid.New(), uuid.New()
		s := &stuckStore{stuck: stuck, end: make(chan struct{})}
		p := New(Options{Sessions: s})
		beat := func(namespace uuid.UUID) error {
			_, err := p.Heartbeat(t.Context(), job.SessionPath{Namespace: namespace, Queue: "q", ID: uuid.New()}, nil)
			return err
		}
		require.NoError(t, beat(other))
		for range maxCallsOf {
			go func() { _ = beat(stuck) }()
		}
		synctest.Wait()
		require.ErrorIs(t, beat(stuck), context.DeadlineExceeded, "no call was answered meanwhile")
		waits := make(chan error)
		go func() { waits <- beat(stuck) }()
		<-time.After(heartbeatLimit / 2)
		require.NoError(t, beat(other))
		require.ErrorIs(t, <-waits, job.ErrTooManyWorkers)
		close(s.end)
	})
}

// TestAPollEndsWhenItsWorkerDisconnects, and not with the context of its request.
func TestAPollEndsWhenItsWorkerDisconnects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := job.WorkerSession{ID: uuid.New(), Namespace: uuid.New(), QueueName: "q", Queue: 1}
		p := New(Options{})
		p.known.add(w)
		p.scanning, p.queueOf(w).serving = true, true // without loops
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		o := job.PullParams{Handlers: []string{"x"}, Wait: time.Hour, Waits: func() <-chan struct{} { return gone }}
		at := job.SessionPath{Namespace: w.Namespace, Queue: "q", ID: w.ID}
		go func() { _, _ = p.Claim(ctx, at, o) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.EqualValues(t, 1, p.polls.Used())
		close(gone)
		synctest.Wait()
		require.Zero(t, p.polls.Used())
	})
}
