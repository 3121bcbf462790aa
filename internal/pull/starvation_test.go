package pull_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
)

// scannedOnce has no scans after one that has found a run, until the run is claimed.
type scannedOnce struct {
	*pgtest.Store
	found   atomic.Bool
	claimed chan struct{}
}

func (s *scannedOnce) ScanDue(
	ctx context.Context, feeds []job.Feed, o job.ScanParams,
) (now time.Time, first []time.Time, err error) {
	if s.found.Load() {
		select {
		case <-s.claimed:
		case <-ctx.Done():
			return now, nil, ctx.Err()
		}
	}
	now, first, err = s.Store.ScanDue(ctx, feeds, o)
	if slices.ContainsFunc(first, func(due time.Time) bool { return !due.IsZero() }) {
		s.found.Store(true)
	}
	return now, first, err
}

// More polls wait than one claim takes. Those at the front, which wait for another handler, do not keep a run
// from the poll at the end.
func TestPollsAtTheFrontDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &scannedOnce{Store: b.store, claimed: make(chan struct{})}
	b.pull = pull.New(pull.Options{Store: store, Sessions: b.store, Bound: b.bound, TTL: time.Hour})
	t.Cleanup(b.pull.Stop)
	id := b.job("a", "last", nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	const front = 850 // more than four claims take
	for range front {
		s := b.open()
		wait.Go(func() {
			_, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: []string{"first"}, Max: 1, Wait: time.Hour})
			assertNil(t, err)
		})
	}
	b.waiting(front)
	s := b.open()
	require.Empty(t, b.claim(s, 1, 1, "last"), "now the queue knows the handler")
	got := make(chan []job.Claimed, 1)
	wait.Go(func() {
		runs, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: []string{"last"}, Max: 1, Wait: patience})
		assertNil(t, err)
		got <- runs
	})
	b.waiting(front + 1)
	b.trigger(id)
	require.Len(t, <-got, 1, "claims follow each other without a scan between them")
	close(store.claimed)
}
