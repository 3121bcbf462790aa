package pull_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// More polls than one claim takes: those that wait for what is not there do not
// keep a run from the one that is behind them all.
func TestALongLineStarvesNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pull = b.puller(time.Minute)
	id := b.job("a", "last", nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	const line = 850 // four claims, and a part
	for range line {
		s := b.open()
		wait.Go(func() {
			_, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: []string{"first"}, Max: 1, Wait: patience})
			assertNil(t, err)
		})
	}
	b.waiting(line)
	s := b.open()
	require.Empty(t, b.claim(s, 1, 1, "last"), "so that nothing is new to the queue any more")
	got := make(chan []job.Claimed, 1)
	wait.Go(func() {
		runs, err := b.pull.Claim(ctx, s, job.PullParams{Handlers: []string{"last"}, Max: 1, Wait: patience})
		assertNil(t, err)
		got <- runs
	})
	b.waiting(line + 1)
	looks := b.pull.Counts().Looks
	b.trigger(id)
	require.Len(t, <-got, 1)
	require.Less(t, b.pull.Counts().Looks-looks, int64(5), "one claim after the other, and not one for each look")
}

func (b *bundle) waiting(n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.pull.Counts().Waiting == n }, patience, pause)
}
