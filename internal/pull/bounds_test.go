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

const (
	maxFeeds     = 20_000
	feedsPerPoll = job.MaxHandlers * (job.MaxPriority + 1)
)

// invented returns the n-th set of handler names, as many as one poll may have.
func invented(n int) (names []string) {
	for i := range job.MaxHandlers {
		names = append(names, fmt.Sprintf("h%d-%d", n, i))
	}
	return names
}

func TestHandlersWithoutPollsAreForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pull = b.puller(time.Minute)
	s := b.open()
	for i := range maxFeeds/feedsPerPoll + 3 {
		require.Empty(t, b.claim(s, 1, time.Millisecond, invented(i)...))
		require.LessOrEqual(t, b.pull.Counts().Feeds, maxFeeds)
	}
	b.trigger(b.job("a", "h0-0", nil))
	require.Len(t, b.claim(s, 1, patience, invented(0)...), 1, "a handler that was forgotten is found again")
}

func TestHandlersOfAQueueAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pull = b.puller(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	const most = maxFeeds / feedsPerPoll
	for i := range most {
		s := b.open()
		wait.Go(func() {
			_, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: invented(i), Max: 1, Wait: patience})
			assertNil(t, err)
		})
	}
	// A poll is counted as waiting before its handlers are.
	require.Eventually(t, func() bool { return b.pull.Counts().Feeds == maxFeeds }, patience, pause)
	s := b.open()
	_, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: invented(most), Max: 1, Wait: time.Millisecond})
	require.ErrorIs(t, err, job.ErrTooManyHandlers)
	require.Equal(t, maxFeeds, b.pull.Counts().Feeds)
	require.Equal(t, most, b.pull.Counts().Waiting)
	require.Empty(t, b.claim(s, 1, time.Millisecond, invented(0)...), "handlers that others wait for are accepted")
}

// gatedStore writes no reports before its gate is closed.
type gatedStore struct {
	*pgtest.Store
	begun chan struct{}
	gate  chan struct{}
}

func (s *gatedStore) CompletePulled(ctx context.Context, done []job.Completion) ([]job.Reported, error) {
	s.begun <- struct{}{}
	<-s.gate
	return s.Store.CompletePulled(ctx, done)
}

// The number of waiting reports is limited, and reports of a request that was given up are dropped.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &gatedStore{b.store, make(chan struct{}, 100), make(chan struct{})}
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
	for range 2 { // occupies both writers
		send(t.Context(), 1)
		<-store.begun
	}
	const most = 40 // of 50, because a part is for other namespaces
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
	require.Empty(t, store.begun, "reports of cancelled requests are not written")
}

func reports(key job.Key, n int) []job.Completion {
	done := make([]job.Completion, n)
	for i := range done {
		done[i] = job.Completion{Key: key, Attempt: 1, Outcome: job.Outcome{Kind: job.Succeeded}}
	}
	return done
}
