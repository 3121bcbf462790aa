package postgres_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// counted is a namespace whose sessions a node opens, ends and counts.
type counted struct {
	room            postgres.SessionRoom
	namespace       uuid.UUID
	most, live, all int64
	counts          int
}

func (c *counted) open(ctx context.Context, replaces bool) error {
	err := c.room.Open(ctx, c.namespace, replaces, func() (most, live, all int64) {
		c.counts++
		if replaces {
			return c.most, c.live - 1, c.all // it has ended in this transaction
		}
		return c.most, c.live, c.all
	})
	if err == nil {
		c.all++
		if !replaces {
			c.live++
		}
	}
	return err
}

func (c *counted) end() {
	c.live--
	c.room.End(c.namespace)
}

// TestSessionsAreCountedRarely: whatever a worker does, the sessions of its namespace are counted about once a second, or
// once for many requests.
func TestSessionsAreCountedRarely(t *testing.T) {
	t.Parallel()
	const most = 10_000
	tests := map[string]struct {
		live   int64
		work   func(*testing.T, *counted)
		counts int // those that have ended, and are not deleted yet, add up
	}{
		"refused": {most, func(t *testing.T, c *counted) {
			requireFull(t, c.open(t.Context(), false), most, most)
		}, 1},
		"open and end at the limit": {most, func(t *testing.T, c *counted) {
			requireFull(t, c.open(t.Context(), false), most, most)
			c.end()
			require.NoError(t, c.open(t.Context(), false))
		}, 2},
		"open and end near the limit": {most - 3, func(t *testing.T, c *counted) {
			require.NoError(t, c.open(t.Context(), false))
			c.end()
		}, 2},
		"replace at the limit": {most, func(t *testing.T, c *counted) {
			require.NoError(t, c.open(t.Context(), true))
			requireFull(t, c.open(t.Context(), false), most, most)
		}, 2},
		"open up to the limit": {most - 500, func(t *testing.T, c *counted) {
			if c.live == most {
				requireFull(t, c.open(t.Context(), false), most, most)
			} else {
				require.NoError(t, c.open(t.Context(), false))
			}
		}, 30},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &counted{namespace: uuid.New(), most: most, live: test.live, all: test.live}
				for range 1000 {
					test.work(t, c)
				}
				require.LessOrEqual(t, c.counts, test.counts)
				require.LessOrEqual(t, c.live, c.most)
			})
		})
	}
}

// TestSessionsAreCountedAgain: what other nodes open and end counts after some time, and what has ended is limited too.
func TestSessionsAreCountedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counted{namespace: uuid.New(), most: 100, live: 100, all: 100}
		requireFull(t, c.open(t.Context(), false), 100, 100)
		c.live = 10
		requireFull(t, c.open(t.Context(), false), 100, 100)
		<-time.After(time.Second)
		require.NoError(t, c.open(t.Context(), false))
		c.live = 100
		require.NoError(t, c.open(t.Context(), false), "within its share")
		<-time.After(5 * time.Second)
		requireFull(t, c.open(t.Context(), false), 101, 100)

		replaced := 0
		for ; c.open(t.Context(), true) == nil; replaced++ {
			require.Less(t, replaced, 100)
		}
		require.EqualValues(t, 200, c.all)
		require.ErrorIs(t, c.open(t.Context(), true), job.ErrTooManySessions)
	})
}

// TestOneCallerCountsSessions: callers at the same time wait for one count, unless it fails.
func TestOneCallerCountsSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var room postgres.SessionRoom
		namespace, counts, result := uuid.New(), make(chan struct{}, 20), make(chan int64)
		count := func() (most, live, all int64) {
			counts <- struct{}{}
			return 1000, 0, <-result
		}
		for range 10 {
			go func() { assert.NoError(t, room.Open(t.Context(), namespace, false, count)) }()
		}
		synctest.Wait()
		require.Len(t, counts, 1)
		ended, end := context.WithCancel(t.Context())
		end()
		require.ErrorIs(t, room.Open(ended, namespace, false, count), context.Canceled)
		result <- 0
		synctest.Wait()
		require.Len(t, counts, 1)
	})
}
