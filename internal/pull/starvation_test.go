package pull_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// More polls wait than one claim takes. Those at the front, which wait for another handler, do not keep a run
// from the poll at the end.
func TestPollsAtTheFrontDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pull = b.puller(time.Minute)
	id := b.job("a", "last", nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	const front = 850 // more than four claims take
	for range front {
		s := b.open()
		wait.Go(func() {
			_, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: []string{"first"}, Max: 1, Wait: patience})
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
	scans := b.pull.Counts().Scans
	b.trigger(id)
	require.Len(t, <-got, 1)
	require.Less(t, b.pull.Counts().Scans-scans, int64(5), "claims follow each other without a scan between them")
}
