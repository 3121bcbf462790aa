package pull_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
)

// invented are names of handlers that nobody else has.
func invented(n int) (names []string) {
	for i := range job.MaxHandlers {
		names = append(names, fmt.Sprintf("h%d-%d", n, i))
	}
	return names
}

const (
	maxLanes = 20_000
	lanesOf  = job.MaxHandlers * (job.MaxPriority + 1) // one poll
)

// Names of handlers that nobody waits for any more are forgotten.
func TestInventedHandlersAreForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pull = b.puller(time.Minute)
	s := b.open()
	for i := range maxLanes/lanesOf + 3 {
		require.Empty(t, b.claim(s, 1, time.Millisecond, invented(i)...))
		require.LessOrEqual(t, b.pull.Counts().Lanes, maxLanes)
	}
	b.trigger(b.job("a", "h0-0", nil))
	require.Len(t, b.claim(s, 1, patience, invented(0)...), 1, "one that was forgotten is found again")
}

// And of those that somebody waits for there are so many.
func TestHandlersOfAQueueAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pull = b.puller(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	const most = maxLanes / lanesOf
	for i := range most {
		s := b.open()
		wait.Go(func() {
			_, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: invented(i), Max: 1, Wait: patience})
			assertNil(t, err)
		})
	}
	b.waiting(most)
	s := b.open()
	_, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: invented(most), Max: 1, Wait: time.Millisecond})
	require.ErrorIs(t, err, job.ErrTooManyHandlers)
	require.Equal(t, maxLanes, b.pull.Counts().Lanes)
	require.Equal(t, most, b.pull.Counts().Waiting)
	require.Empty(t, b.claim(s, 1, time.Millisecond, invented(0)...), "one that knows what others know is welcome")
}

// slow is a store that takes no reports until it is told to.
type slow struct {
	*pgtest.Store
	begun chan struct{}
	gate  chan struct{}
}

func (s *slow) CompletePulled(ctx context.Context, done []job.Completion) ([]job.GoneReason, error) {
	s.begun <- struct{}{}
	<-s.gate
	return s.Store.CompletePulled(ctx, done)
}

// Reports of a request that gave up are not kept, and there are so many at once.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &slow{b.store, make(chan struct{}, 100), make(chan struct{})}
	b.pull = pull.New(pull.Options{Store: store, Sessions: b.store, Bound: b.bound, TTL: time.Minute})
	t.Cleanup(b.pull.Stop)
	key := b.trigger(b.job("a", "x", nil))
	s := b.open()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	send := func(ctx context.Context, n int) {
		wait.Go(func() {
			_, err := b.pull.Complete(ctx, s, reports(key, n))
			if ctx == t.Context() {
				assertNil(t, err)
			}
		})
	}
	for range 2 { // as many as write at once
		send(t.Context(), 1)
		<-store.begun
	}
	const most = 50
	for range most {
		send(ctx, job.MaxReports)
	}
	require.Eventually(t, func() bool { return b.pull.Counts().Reporting == most*job.MaxReports }, patience, pause)
	limited, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	_, err := b.pull.Complete(limited, s, reports(key, 1))
	require.ErrorIs(t, err, job.ErrTooManyReports)
	cancel()
	require.Eventually(t, func() bool { return b.pull.Counts().Reporting == 0 }, patience, pause)
	close(store.gate)
	wait.Wait()
	require.Empty(t, store.begun, "what was given up is not written")
}

func reports(key job.Key, n int) []job.Completion {
	done := make([]job.Completion, n)
	for i := range done {
		done[i] = job.Completion{Key: key, Attempt: 1, Outcome: job.Outcome{Kind: job.Succeeded}}
	}
	return done
}
