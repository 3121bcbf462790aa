package pull_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
)

// blindStore has scans that find nothing.
type blindStore struct {
	*pgtest.Store
	scanned chan struct{}
}

func (s blindStore) ScanDue(_ context.Context, feeds []job.Feed, _ job.ScanParams) (time.Time, []time.Time, error) {
	select {
	case s.scanned <- struct{}{}:
	default:
	}
	now, _, err := s.Store.ScanDue(context.Background(), nil, job.ScanParams{Ahead: time.Second, Limit: 1})
	return now, make([]time.Time, len(feeds)), err
}

// A worker gets a run when its queue is woken. No scan finds it here.
func TestAWakeReachesAWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := blindStore{b.store, make(chan struct{}, 1)}
	b.pull = pull.New(pull.Options{Store: store, Sessions: b.store, Bound: b.bound, TTL: time.Hour})
	t.Cleanup(b.pull.Stop)
	id := b.job("a", "x", nil)
	s := b.open()
	queue := int32(b.number(`SELECT id FROM queue WHERE name = 'work'`))
	b.pull.Wake(map[int32]int64{queue: 0, 12345: 0}) // no worker waits yet
	got := make(chan []job.Claimed, 1)
	go func() {
		runs, err := b.pull.Claim(t.Context(), s, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: patience})
		assertNil(t, err)
		got <- runs
	}()
	// The first claim of a new handler has ended, and scans go on.
	require.Eventually(t, func() bool { return b.pull.Counts().Claims > 0 }, patience, pause)
	<-store.scanned
	<-store.scanned
	key := b.trigger(id)
	b.pull.Wake(map[int32]int64{queue: 0})
	runs := <-got
	require.Len(t, runs, 1)
	require.Equal(t, key.RunKey(), runs[0].Key.RunKey())
}
