package wheel

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
)

// waitingRuns is runs of a job that wait for a queue, in order.
func waitingRuns(id uuid.UUID, n int, queue int32) (runs []job.Run) {
	for i := range n {
		r := runAt(id, i, 5)
		r.RunAt, r.Queue = epoch, queue
		runs = append(runs, r)
	}
	return runs
}

// limitedWheel has one limited queue, and due runs on its waitlist.
func limitedWheel(runs ...job.Run) *Wheel {
	w := New(0)
	w.SetLimited([]int32{1})
	w.Add(runs)
	w.Take(epoch, 1, all{})
	return w
}

var afterEpoch = epoch.Add(time.Second)

// Of many runs of a job, one is taken at a time. The others stay on the waitlist, and other jobs start in
// the meantime.
func TestManyRunsOfAJobOnAWaitlist(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	many, other := waitingRuns(a, 1000, 1), waitingRuns(b, 2, 1)
	w := limitedWheel(append(many, other...)...)
	for i := range many {
		want := []job.Run{many[i]}
		if i < len(other) {
			want = append(want, other[i])
		}
		out, _ := w.TakeWaiting(afterEpoch, 10, all{})
		require.ElementsMatch(t, want, out)
		none, _ := w.TakeWaiting(afterEpoch, 10, all{})
		require.Empty(t, none)
		require.Empty(t, w.busy[a].waiting)
		_, waits := w.Report(1)
		if i < len(many)-1 {
			left := len(many) + max(len(other)-i-1, 0) - i - 1
			require.Equal(t, []job.WaiterReport{{Queue: 1, Waiting: int32(left), Priority: -1}}, waits)
		}
		w.Release(out)
	}
	require.Zero(t, w.Len())
	require.Empty(t, w.busy)
	require.Empty(t, w.waiting.lists)
	require.Empty(t, w.waiting.listOf)
	require.Empty(t, w.waiting.setAside)
}

// A refused run starts before the runs of its job that waited for it.
func TestARefusedRunComesFirstAgain(t *testing.T) {
	t.Parallel()
	runs := waitingRuns(uuid.New(), 3, 1)
	w := limitedWheel(runs...)
	out, _ := w.TakeWaiting(afterEpoch, 10, all{})
	require.Equal(t, runs[:1], out)
	w.TakeWaiting(afterEpoch, 10, all{}) // sets the others aside
	w.ReturnRefused([]Refused{{out[0], job.Refusal{Limit: job.QueueLimit(1)}}}, afterEpoch)
	none, _ := w.TakeWaiting(afterEpoch, 10, all{})
	require.Empty(t, none, "it is full")
	w.RunsEnded([]job.Completion{{Limits: []job.Limit{job.QueueLimit(1)}}})
	out, _ = w.TakeWaiting(afterEpoch, 10, all{})
	require.Equal(t, runs[:1], out)
}

// Nothing is left of a waitlist that is dropped, and runs that are added again are taken.
func TestAWaitlistThatIsDroppedWhileARunIsTaken(t *testing.T) {
	t.Parallel()
	runs := waitingRuns(uuid.New(), 3, 1)
	w := limitedWheel(runs...)
	out, _ := w.TakeWaiting(afterEpoch, 10, all{})
	w.TakeWaiting(afterEpoch, 10, all{})
	w.DropPartitions([]int16{runs[0].Partition})
	require.Equal(t, 1, w.Len(), "only the taken run")
	w.Add(runs)
	w.Take(epoch, 1, all{})
	w.TakeWaiting(afterEpoch, 10, all{})
	w.Release(out)
	out, _ = w.TakeWaiting(afterEpoch, 10, all{})
	require.Equal(t, runs[1:2], out)
	w.Release(out)
	w.DropPartitions([]int16{runs[0].Partition})
	require.Zero(t, w.Len())
	require.Empty(t, w.waiting.listOf)
}

// A waitlist is ordered by priority and time, whatever the job of a run and whenever it comes or goes.
func TestTheOrderOfAWaitlist(t *testing.T) {
	t.Parallel()
	run := func(id uuid.UUID, ms int, priority int16) job.Run {
		r := runAt(id, ms, priority)
		r.Queue = 1
		return r
	}
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	low, middle, late, high := run(a, 0, 1), run(b, 0, 5), run(c, 2, 5), run(a, 3, 9)
	w := limitedWheel(low, middle)
	w.Add([]job.Run{late, high})
	w.Take(afterEpoch, 1, all{})
	for _, want := range []job.Run{high, middle, late, low} {
		out, _ := w.TakeWaiting(afterEpoch, 1, all{})
		require.Equal(t, []job.Run{want}, out)
		w.Release(out)
	}

	// A run that moves to another waitlist is no longer the first of its job.
	w = limitedWheel(low, middle)
	w.Add([]job.Run{high})
	w.Take(afterEpoch, 1, all{})
	high.Queue = 2
	w.Add([]job.Run{high})
	out, _ := w.TakeWaiting(afterEpoch, 1, all{})
	require.Equal(t, []job.Run{middle}, out)
}

// A job that is dropped before its turn leaves nothing behind.
func TestAJobThatIsDroppedBeforeItsTurn(t *testing.T) {
	t.Parallel()
	runs := waitingRuns(uuid.New(), 3, 1)
	runs[2].Queue = 2
	w := limitedWheel(runs[:2]...)
	out, _ := w.TakeWaiting(afterEpoch, 10, all{})
	w.Add(runs[2:])
	require.Empty(t, w.Take(afterEpoch, 10, all{}), "the run waits for its turn")
	w.Release(out) // now it is its turn
	w.TakeWaiting(afterEpoch, 10, all{})
	w.DropPartitions([]int16{runs[0].Partition})
	require.Zero(t, w.Len())
	require.Empty(t, w.busy)
	require.Empty(t, w.waiting.setAside)
}

// A node that a rate makes wait for an hour retries soon, because the rate may be raised.
func TestARateThatIsRaised(t *testing.T) {
	t.Parallel()
	runs := waitingRuns(uuid.New(), 1, 1)
	w := limitedWheel(runs...)
	out, _ := w.TakeWaiting(afterEpoch, 10, all{})
	w.ReturnRefused([]Refused{{out[0], job.Refusal{Limit: job.QueueLimit(1), After: time.Hour}}}, afterEpoch)
	none, wait := w.TakeWaiting(afterEpoch, 10, all{})
	require.Empty(t, none)
	require.LessOrEqual(t, wait, time.Second)
	out, _ = w.TakeWaiting(afterEpoch.Add(time.Second), 10, all{})
	require.Equal(t, runs, out)

	w.ReturnRefused([]Refused{{out[0], job.Refusal{Limit: job.QueueLimit(1), After: time.Millisecond}}}, afterEpoch)
	out, _ = w.TakeWaiting(afterEpoch.Add(time.Millisecond), 10, all{})
	require.Equal(t, runs, out, "when there is a token")
}

// However many limits are full, each is polled before any is polled again.
func TestLimitsArePolledInTurn(t *testing.T) {
	t.Parallel()
	const limits, most = 25, 10
	var runs []job.Run
	for i := range limits {
		r := runAt(uuid.New(), 0, 5)
		r.ConcurrencyKey, r.ConcurrencyMax = int64(i+1), 1
		runs = append(runs, r)
	}
	w := limitedWheel(runs...)
	out, _ := w.TakeWaiting(afterEpoch, limits, all{})
	require.Len(t, out, limits)
	refused := make([]Refused, limits)
	for i, r := range out {
		refused[i] = Refused{r, job.Refusal{Limit: job.KeyLimit(r.ConcurrencyKey)}}
	}
	w.ReturnRefused(refused, afterEpoch)
	for range 3 {
		polled := map[job.Limit]int{}
		for range (limits + most - 1) / most {
			full, _ := w.Report(most)
			require.LessOrEqual(t, len(full), most)
			for _, l := range full {
				polled[l]++
			}
		}
		require.Len(t, polled, limits)
	}
	full, _ := w.Report(limits)
	require.Len(t, full, limits)
	full, _ = w.Report(limits)
	require.Len(t, full, limits, "if one statement is enough, all are polled each time")
}

// TestWaitersAreReportedInTurns: what waits for very many queues of one namespace does not hide what waits for those of
// another.
func TestWaitersAreReportedInTurns(t *testing.T) {
	t.Parallel()
	const queues, most = 100, 10
	attacker, victim := uuid.New(), uuid.New()
	of := map[int32]uuid.UUID{}
	var limited []int32
	var runs []job.Run
	for q := range int32(queues + 1) {
		r := runAt(uuid.New(), 0, 5)
		r.Queue = q + 1
		runs, limited, of[r.Queue] = append(runs, r), append(limited, r.Queue), attacker
	}
	of[queues+1] = victim
	w := New(0)
	w.SetNamespaces(of)
	w.SetLimited(limited)
	w.Add(runs)
	w.Take(epoch, 1, all{})
	for range 5 {
		_, waiters := w.Report(most)
		require.Len(t, waiters, most)
		require.EqualValues(t, queues+1, waiters[most-1].Queue)
	}
	_, waiters := w.Report(2 * queues)
	require.Len(t, waiters, queues+1)
}

// BenchmarkManyRunsOfAJob starts one of many runs of a job on a waitlist.
func BenchmarkManyRunsOfAJob(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := limitedWheel(waitingRuns(uuid.New(), n, 1)...)
			for b.Loop() {
				out, _ := w.TakeWaiting(afterEpoch, 200, all{})
				w.Release(out)
				w.Add(out) // keeps the number of runs
				w.Take(epoch, 100, all{})
			}
		})
	}
}

// Thousands of runs move at the same time when their queue gets its first limit, or when they are moved
// to another queue while theirs is paused. The lock is held for as long as that takes.
func TestManyRunsThatMove(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for name, moved := range map[string]func() (*Wheel, []job.Run){
		"from a waitlist, of many jobs": func() (*Wheel, []job.Run) { return movedFromWaitlist(n, uuid.New) },
		"from a waitlist, of one job": func() (*Wheel, []job.Run) {
			id := uuid.New()
			return movedFromWaitlist(n, func() uuid.UUID { return id })
		},
		"from a paused queue": func() (*Wheel, []job.Run) { return movedFromPaused(n) },
		"from a waitlist, twice in one Add": func() (*Wheel, []job.Run) {
			w, runs := movedFromWaitlist(n, uuid.New)
			return w, append(runs, runs...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, runs := moved()
			began := clock.Elapsed()
			w.Add(runs)
			require.Less(t, clock.Elapsed()-began, clocktest.Allow(2*time.Second))
			require.Equal(t, n, w.Len())
			w.Take(epoch, 0, all{})
			w.Take(epoch, 1, all{})
			require.Len(t, w.waiting.lists, 1)
			for id, in := range w.waiting.lists {
				require.EqualValues(t, 1, id.queue)
				require.Equal(t, n, in.size)
			}
			require.Len(t, w.waiting.listOf, n)
			require.Empty(t, w.paused.queueOf)
			require.Empty(t, w.paused.runs[2])
		})
	}
}

// movedFromWaitlist is runs with a concurrency key whose queue then gets a limit too.
func movedFromWaitlist(n int, of func() uuid.UUID) (*Wheel, []job.Run) {
	var runs []job.Run
	for i := range n {
		r := runAt(of(), i, 5)
		r.RunAt, r.Queue, r.ConcurrencyKey, r.ConcurrencyMax = epoch, 1, 7, 1
		runs = append(runs, r)
	}
	w := New(0)
	w.Add(runs)
	w.Take(epoch, 1, all{})
	w.SetLimited([]int32{1})
	return w, runs
}

func movedFromPaused(n int) (*Wheel, []job.Run) {
	w := New(0)
	w.SetLimited([]int32{1})
	w.SetPaused([]int32{2})
	var runs []job.Run
	for range n {
		runs = append(runs, waitingRuns(uuid.New(), 1, 2)...)
	}
	w.Add(runs)
	w.Take(epoch, 1, all{})
	for i := range runs {
		runs[i].Queue = 1
	}
	return w, runs
}

// BenchmarkManyRunsThatMove moves runs with a concurrency key whose queue gets its first limit.
func BenchmarkManyRunsThatMove(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w, runs := movedFromWaitlist(n, uuid.New)
				b.StartTimer()
				w.Add(runs)
			}
		})
	}
}
