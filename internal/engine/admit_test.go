package engine

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/engine/wheel"
	"github.com/belfry-dev/belfry/internal/job"
)

// upcoming is the number of upcoming runs of all namespaces.
func upcoming(w *wheel.Wheel) (n int) {
	for _, of := range w.Upcoming() {
		n += of
	}
	return n
}

// allPending is a store in which each run is pending and needs a decision, which ends it.
type allPending struct {
	Claimer
	admitted chan job.Key
}

func (s allPending) Admit(
	_ context.Context, _ uuid.UUID, keys []job.Key, _ time.Duration,
) (out []job.Admitted, err error) {
	for _, k := range keys {
		s.admitted <- k
		out = append(out, job.Admitted{Done: true})
	}
	return out, nil
}

const queueOfMany, queueOfFew = 1, 2

type undecided struct {
	*Engine
	many, few uuid.UUID // namespaces
	admitted  chan job.Key
	due       time.Time
}

// newUndecided returns an engine with 100 slots that can have 40 undecided runs.
func newUndecided(t *testing.T) *undecided {
	t.Helper()
	u := &undecided{
		many: uuid.New(), few: uuid.New(), admitted: make(chan job.Key, 100),
		due: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	bound := &clock.Bound{}
	require.Empty(t, bound.Set(clock.Sample{Now: u.due, Mark: u.due}).Doubt)
	u.Engine = New(Options{
		Claimer: allPending{admitted: u.admitted}, Member: ownsAll{}, Bound: bound, Slots: 100, Batch: 10,
	})
	u.wheel.SetNamespaces(map[int32]uuid.UUID{queueOfMany: u.many, queueOfFew: u.few})
	return u
}

// leave takes n runs of a queue from the wheel, and does as a claim that has left all of them. Their jobs are new.
func (u *undecided) leave(t *testing.T, queue int32, n int) (runs []job.Run) {
	t.Helper()
	for range n {
		runs = append(runs, job.Run{Key: job.Key{Job: uuid.New(), DueAt: u.due}, RunAt: u.due, Queue: queue})
	}
	u.wheel.Add(runs)
	free := newSlots(1000)
	require.Len(t, u.wheel.Take(u.due.Add(wheel.SlotWidth), n, free.shares(1000)), n)
	u.leaveToAdmitters(runs)
	return runs
}

// start starts an admitter that ends with the test.
func (u *undecided) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		u.admit(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// TestDecisionsTakeTurns: a namespace with more undecided runs than the admitters take leaves some of their queue to
// others, whose decisions wait for few of its own.
func TestDecisionsTakeTurns(t *testing.T) {
	t.Parallel()
	u := newUndecided(t)
	many := u.leave(t, queueOfMany, 100)
	require.EqualValues(t, 32, u.undecided.share.Used(), "its share")
	require.Equal(t, 68, upcoming(u.wheel), "the others come again later")
	few := u.leave(t, queueOfFew, 1)
	u.start(t)
	require.Equal(t, many[0].Key, <-u.admitted)
	require.Equal(t, few[0].Key, <-u.admitted)
	for _, r := range many[1:32] {
		require.Equal(t, r.Key, <-u.admitted)
	}
}

// TestDecisionsDoNotExceedTheShareOfSlots: runs of a namespace that has its share of the slots wait, and those of
// others are decided meanwhile.
func TestDecisionsDoNotExceedTheShareOfSlots(t *testing.T) {
	t.Parallel()
	u := newUndecided(t)
	const used = 99
	require.Equal(t, used, u.slots.acquire(used, used))
	for range used {
		u.slots.start(u.many)
	}
	many, few := u.leave(t, queueOfMany, 2), u.leave(t, queueOfFew, 2)
	u.start(t)
	require.Equal(t, few[0].Key, <-u.admitted)
	require.Equal(t, few[1].Key, <-u.admitted)
	for range used {
		u.slots.end(u.many, false)
	}
	require.Equal(t, many[0].Key, <-u.admitted)
	require.Equal(t, many[1].Key, <-u.admitted)
	require.Eventually(t, func() bool { return u.slots.left() == 100 }, time.Minute, time.Millisecond)
}

// TestAPauseHoldsForUndecidedRuns: a run whose queue is paused while it waits for a decision waits until it is resumed.
func TestAPauseHoldsForUndecidedRuns(t *testing.T) {
	t.Parallel()
	u := newUndecided(t)
	paused, other := u.leave(t, queueOfMany, 1), u.leave(t, queueOfFew, 1)
	u.wheel.SetPaused([]int32{queueOfMany})
	u.start(t)
	require.Equal(t, other[0].Key, <-u.admitted)
	require.False(t, u.wheel.Taken(paused[0].RunKey()))
	u.wheel.SetPaused(nil)
	free := newSlots(10)
	require.Equal(t, paused, u.wheel.Take(u.due.Add(wheel.SlotWidth), 10, free.shares(10)))
}

// TestARunThatIsNotDecidedYetDoesNotWaitInLine: of the runs that wait for others of their job, only the first is asked
// about. A run that a change of the job had locked is no such run: it may have to be skipped now.
func TestARunThatIsNotDecidedYetDoesNotWaitInLine(t *testing.T) {
	t.Parallel()
	u := newUndecided(t)
	waits := job.Run{Key: job.Key{Job: uuid.New(), DueAt: u.due}, RunAt: u.due, Queue: queueOfMany}
	locked := waits
	locked.DueAt = u.due.Add(time.Second)
	u.wheel.Add([]job.Run{waits, locked})
	free := newSlots(1000)
	take := func(at time.Time) []job.Run { return u.wheel.Take(at, 10, free.shares(1000)) }
	asked := map[time.Time]int{}
	for _, at := range []time.Time{u.due.Add(wheel.SlotWidth), u.due.Add(wheel.BlockedPause + 2*wheel.SlotWidth)} {
		for range 2 {
			for _, r := range take(at) {
				asked[r.DueAt]++
				u.Engine.admitted(t.Context(), r, job.Admitted{Later: r.DueAt.Equal(locked.DueAt)}, u.due)
			}
		}
	}
	require.Equal(t, map[time.Time]int{waits.DueAt: 2, locked.DueAt: 2}, asked)
}
