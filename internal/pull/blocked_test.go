package pull_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// manyBlocked is more runs than a node retries in a second.
const manyBlocked = 400

// A long line of runs waits for a concurrency key. Later runs of another key, and those with a policy to decide, start.
func TestALineDoesNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keyed := func(key string) func(*job.Definition) {
		return func(d *job.Definition) { d.Concurrency = job.Concurrency{Key: key, Max: 1} }
	}
	long, short := b.job("long", "x", keyed("a")), b.job("short", "x", keyed("b"))
	for range manyBlocked {
		b.trigger(long)
	}
	s := b.open()
	require.Len(t, b.claim(s, 1, patience, "x"), 1)
	b.trigger(short)
	b.trigger(short)
	first := b.claim(s, 1, patience, "x")
	require.Len(t, first, 1)
	require.Equal(t, short, first[0].Key.Job)
	b.succeed(s, first...)
	second := b.claim(s, 1, patience, "x")
	require.Len(t, second, 1)
	require.Equal(t, short, second[0].Key.Job)

	queued := b.job("queued", "x", func(d *job.Definition) { d.Overlap = job.OverlapQueueAll })
	b.trigger(queued)
	got := b.claim(s, 1, patience, "x")
	require.Len(t, got, 1)
	require.Equal(t, queued, got[0].Key.Job)
}

// Each of many jobs has a run that waits for the one before. Runs of other jobs are decided, and start in order of
// priority. When the runs before have ended, all that waited start.
func TestManyLinesDoNotKeepOthersWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	queued := func(d *job.Definition) { d.Overlap = job.OverlapQueueAll }
	var jobs []uuid.UUID
	for i := range manyBlocked {
		id := b.job(fmt.Sprint("waits-", i), "x", queued)
		jobs = append(jobs, id)
		b.trigger(id)
	}
	s, other := b.open(), b.open()
	var live []job.Claimed
	for len(live) < manyBlocked {
		live = append(live, b.claim(s, manyBlocked, patience, "x")...)
	}
	for _, id := range jobs {
		b.trigger(id)
	}
	for range 3 {
		id := b.job(fmt.Sprint("other-", uuid.New()), "x", queued)
		b.trigger(id)
		got := b.claim(other, 1, patience, "x")
		require.Len(t, got, 1)
		require.Equal(t, id, got[0].Key.Job)
	}
	b.succeed(s, live...)
	for live = nil; len(live) < manyBlocked; {
		live = append(live, b.claim(s, manyBlocked, patience, "x")...)
	}
}
