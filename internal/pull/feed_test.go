package pull

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// fullPolls is how many polls with different handlers fill a queue.
const fullPolls = maxHandlers / job.MaxHandlers

// queueWith returns a queue with n polls. If n is at least fullPolls, it has all the handlers it can have.
func queueWith(t *testing.T, n int) *queue {
	t.Helper()
	q := newQueue(New(Options{}), uuid.Nil, 1)
	for i := range n {
		_, err := q.enter(pollOf(i % fullPolls))
		require.NoError(t, err)
	}
	return q
}

// pollOf returns a poll for the n-th set of handlers.
func pollOf(n int) *longPoll {
	p := &longPoll{Poll: job.Poll{Session: uuid.New(), Max: 1}, reply: make(chan reply, 1)}
	for i := range job.MaxHandlers {
		p.Handlers = append(p.Handlers, fmt.Sprintf("h%d-%d", n, i))
	}
	return p
}

// A claim began to read behind late runs, and ends after a scan has found them. If it moved the mark, a queue whose claims
// never stop would hide them from every scan.
func TestAMarkKeepsToTheFirstRunThatIsKnown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	old, began := now.Add(-time.Minute), now.Add(-time.Second)
	f := &feed{mark: began}
	f.read(time.Time{}, now, old, false) // from the beginning
	f.read(began, now, now, false)
	require.Equal(t, old, f.mark, "a claim was under way")
	f.read(old, now, began, false)
	require.Equal(t, began, f.mark, "the next claim has taken them")
	f.read(began, now, time.Time{}, false)
	require.Equal(t, now.Add(-markLag), f.mark, "a scan found nothing")
	f.read(began, now, began, false)
	require.Equal(t, began, f.mark, "a claim has left a run")
}

// What was under way when late runs were written may have missed them, wherever it began. The mark stays before them, or
// goes back further to what was found; what begins afterwards moves it on.
func TestLateRunsAreNotPassed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	late := now.Add(-time.Minute)
	for name, mark := range map[string]time.Time{
		"the mark is after them": now.Add(-time.Second), "at them": late, "before them": late.Add(-time.Second), "unknown": {},
	} {
		p := pollOf(0)
		k := feedKey{p.Handlers[0], 0}
		q := newQueue(New(Options{}), uuid.Nil, 1)
		_, err := q.enter(p)
		require.NoError(t, err)
		q.feeds[k].mark = mark
		want := earlier(mark, late)
		end := func(r *round) {
			q.advanceMarks(r, job.PullClaimResult{Now: now, Marks: slices.Repeat([]time.Time{now}, len(r.params.Feeds))})
		}
		scan := func() job.Feed {
			feeds, _ := q.toScan(now)
			return feeds[slices.IndexFunc(feeds, func(f job.Feed) bool { return f.Handler == k.handler && f.Priority == 0 })]
		}
		for range 2 { // the second time the mark is where the first one left it
			claimed, scanned := q.begin(), scan()
			q.newRuns(late.Unix())
			end(claimed)
			require.Equal(t, want.Unix(), q.feeds[k].mark.Unix(), "%s: a claim", name)
			q.scanned(scanned, now, time.Time{})
			require.Equal(t, want.Unix(), q.feeds[k].mark.Unix(), "%s: a scan", name)
		}
		end(q.begin())
		require.Equal(t, now.Add(-markLag), q.feeds[k].mark, name)
	}
}

// All other polls of the node wait while one is rejected, so its cost must not depend on how many wait. Not
// parallel, because it measures allocations and time.
func TestRejectingAPollIsCheap(t *testing.T) {
	cost := func(q *queue) (least time.Duration) {
		least = time.Hour
		p := pollOf(maxHandlers)
		for range 20 {
			begin := clock.Elapsed()
			_, err := q.enter(p)
			least = min(least, clock.Elapsed()-begin)
			require.ErrorIs(t, err, job.ErrTooManyHandlers)
		}
		allocations := testing.AllocsPerRun(10, func() { _, _ = q.enter(p) })
		require.Less(t, allocations, 100.0, "it creates no feeds")
		return least
	}
	few, many := cost(queueWith(t, 20)), cost(queueWith(t, 2000))
	t.Log("rejecting a poll takes", few, "while 20 wait, and", many, "while 2,000 wait")
	require.Less(t, many, 3*few+time.Millisecond)
}

// Each poll that leaves frees capacity for new handlers. Handlers of other polls stay.
func TestHandlersWithoutPollsAreForgotten(t *testing.T) {
	t.Parallel()
	q := queueWith(t, fullPolls-1)
	again := pollOf(0) // now two polls wait for these handlers
	_, err := q.enter(again)
	require.NoError(t, err)
	require.True(t, q.leave(again))
	for i := range 10 {
		p := pollOf(maxHandlers + i)
		_, err := q.enter(p)
		require.NoError(t, err)
		require.Equal(t, maxHandlers*(job.MaxPriority+1), q.feedCount())
		_, err = q.enter(pollOf(2*maxHandlers + i))
		require.ErrorIs(t, err, job.ErrTooManyHandlers)
		require.True(t, q.leave(p))
	}
	for i := range fullPolls - 1 {
		for _, h := range pollOf(i).Handlers {
			require.NotNil(t, q.feeds[feedKey{h, 0}])
		}
	}
	require.Len(t, q.awaited(), maxHandlers-job.MaxHandlers)
	require.Equal(t, fullPolls-1, q.dismiss())
	require.Empty(t, q.awaited())
}
