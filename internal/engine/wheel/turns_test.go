package wheel

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestNamespacesTakeTurns: a namespace with many due runs, in many queues, and of the highest priority, does
// not delay another one.
func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	const many, queues = 10_000, 100
	due := time.Unix(1_000_000, 0)
	w := New(0)
	attacker, victim := uuid.New(), uuid.New()
	known := map[int32]uuid.UUID{queues: victim}
	for q := range int32(queues) {
		known[q] = attacker
	}
	w.SetNamespaces(known)
	run := func(queue int32, i int) job.Run {
		id := uuid.New()
		at := due.Add(time.Duration(i) * time.Microsecond)
		r := job.Run{Key: job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: at}, RunAt: at, Queue: queue}
		if queue < queues {
			r.Priority = job.MaxPriority
		}
		return r
	}
	for i := range many {
		w.Add([]job.Run{run(int32(i%queues), i)})
	}
	w.advance(slotBefore(due.Add(time.Second))) // they are ready before the runs of the other namespace come
	for i := range 5 {
		w.Add([]job.Run{run(queues, many+i)})
	}
	w.Add([]job.Run{run(queues+1, many)}) // of an unknown namespace
	taken := w.Take(due.Add(time.Second), 16, all{})
	require.Len(t, taken, 16)
	var own []job.Run
	unknown := 0
	for _, r := range taken {
		switch r.Queue {
		case queues:
			own = append(own, r)
		case queues + 1:
			unknown++
		}
	}
	require.Len(t, own, 5)
	require.Equal(t, 1, unknown)
	for i := range own[1:] {
		require.True(t, own[i].DueAt.Before(own[i+1].DueAt), "those of a namespace are in order")
	}
	rest := w.Take(due.Add(time.Second), 2*many, all{})
	require.Len(t, rest, many+6-16)
	for i := range rest[1:] {
		require.False(t, rest[i+1].DueAt.Before(rest[i].DueAt))
	}
	require.Zero(t, w.ready.size)
}

// TestDroppedPartitionsLeaveTheirTurns: what is left is taken in order.
func TestDroppedPartitionsLeaveTheirTurns(t *testing.T) {
	t.Parallel()
	w := New(0)
	a, b := uuid.New(), uuid.New()
	w.SetNamespaces(map[int32]uuid.UUID{1: a, 2: b})
	due := time.Unix(1_000_000, 0)
	for i := range 100 {
		id := uuid.New()
		w.Add([]job.Run{{Key: job.Key{Partition: int16(i % 2), Job: id, DueAt: due}, RunAt: due, Queue: int32(1 + i%4/2)}})
	}
	w.advance(slotBefore(due.Add(time.Second)))
	w.DropPartitions([]int16{1})
	taken := w.Take(due.Add(time.Second), 1000, all{})
	require.Len(t, taken, 50)
	for i, r := range taken {
		require.Zero(t, r.Partition)
		require.EqualValues(t, 1+i%2, r.Queue, "they take turns")
	}
}

// TestUnknownQueues: the namespaces of those that are not known yet can be set before their runs are added.
func TestUnknownQueues(t *testing.T) {
	t.Parallel()
	w := New(0)
	runs := []job.Run{{Queue: 1}, {Queue: 1}, {Queue: 2}, {Queue: 3}, {Queue: 3}}
	require.Equal(t, []int32{1, 2, 3}, w.Unknown(runs))
	w.SetNamespaces(map[int32]uuid.UUID{1: uuid.New(), 3: uuid.New()})
	require.Equal(t, []int32{2}, w.Unknown(runs))
	many := map[int32]uuid.UUID{}
	for q := range int32(maxQueues + 10) {
		many[q] = uuid.UUID{1}
	}
	w.SetNamespaces(many)
	require.Len(t, w.namespaces, maxQueues, "one makes room for another")
}

// BenchmarkManyNamespaces takes the only run of each of many namespaces.
func BenchmarkManyNamespaces(b *testing.B) {
	const many = 100_000
	due := time.Unix(1_000_000, 0)
	namespaces, runs := map[int32]uuid.UUID{}, make([]job.Run, many)
	for i := range runs {
		namespaces[int32(i)] = uuid.New()
		runs[i] = job.Run{Key: job.Key{Job: uuid.New(), DueAt: due}, RunAt: due, Queue: int32(i)}
	}
	for b.Loop() {
		w := New(0)
		w.SetNamespaces(namespaces)
		w.Add(runs)
		for taken := w.Take(due.Add(time.Second), 1000, all{}); len(taken) > 0; taken = w.Take(due.Add(time.Second), 1000, all{}) {
			w.Release(taken)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/run")
}

// upTo is how many runs of each namespace may be taken.
type upTo map[uuid.UUID]int

func (u upTo) Full(namespace uuid.UUID) bool { return u[namespace] <= 0 }
func (u upTo) Took(namespace uuid.UUID)      { u[namespace]-- }

// TestANamespaceWithoutRoomWaits: runs of a namespace that has its share stay in the wheel, do not keep those of others
// from being taken, and do not wake claimers.
func TestANamespaceWithoutRoomWaits(t *testing.T) {
	t.Parallel()
	w := New(0)
	full, other := uuid.New(), uuid.New()
	w.SetNamespaces(map[int32]uuid.UUID{1: full, 2: other})
	for i := range 20 {
		r := runAt(uuid.New(), 0, 0)
		r.Queue = int32(1 + i%2)
		w.Add([]job.Run{r})
	}
	capacity := upTo{full: 3, other: 100}
	<-w.Changed()
	taken := w.Take(epoch, 100, capacity)
	count := map[int32]int{}
	for _, r := range taken {
		count[r.Queue]++
	}
	require.Equal(t, map[int32]int{1: 3, 2: 10}, count)
	require.Equal(t, 7, w.Ready())
	capacity[full] = 0
	require.Empty(t, w.Take(epoch, 100, capacity))
	require.Empty(t, w.Changed(), "claimers would take turns without end")
	capacity[full] = 100
	require.Len(t, w.Take(epoch, 5, capacity), 5)
	require.Len(t, w.Changed(), 1, "there is more for the next claimer")
}

// asked counts the namespaces that are asked for, of which all but one are full.
type asked struct {
	not uuid.UUID
	n   int
}

func (a *asked) Full(namespace uuid.UUID) bool { a.n++; return namespace != a.not }
func (*asked) Took(uuid.UUID)                  {}

// TestFullNamespacesArePassedOnce: many namespaces that are full cost little, keep their turns, and are not forgotten.
func TestFullNamespacesArePassedOnce(t *testing.T) {
	t.Parallel()
	const many = 100
	w := New(0)
	namespaces := map[int32]uuid.UUID{}
	for q := range int32(many + 1) {
		namespaces[q] = uuid.New()
	}
	w.SetNamespaces(namespaces)
	for i := range int32(2 * many) {
		r := runAt(uuid.New(), 0, 0)
		r.Queue = min(i, many)
		w.Add([]job.Run{r})
	}
	shares := &asked{not: namespaces[many]}
	require.Len(t, w.Take(epoch, many/2, shares), many/2)
	require.LessOrEqual(t, shares.n, many+many/2+1, "each full one once")
	require.Len(t, w.Take(epoch, many, shares), many/2)
	rest := w.Take(epoch, 2*many, all{})
	require.Len(t, rest, many)
	for i, r := range rest {
		require.EqualValues(t, i, r.Queue, "in turns")
	}
}

// TestAQuotaRefusesAllQueues: once a run is refused by the quota of its namespace, no other queue of it is tried until
// the quota may have capacity again.
func TestAQuotaRefusesAllQueues(t *testing.T) {
	t.Parallel()
	w := New(0)
	over, other := uuid.New(), uuid.New()
	for q := range int32(10) {
		limitedRuns(w, over, q+1, 1, 5)
	}
	now := time.Unix(10, 0)
	taken, _ := w.TakeWaiting(now, 1, all{})
	refusal := job.Refusal{Limit: job.QueueLimit(taken[0].Queue), After: 100 * time.Millisecond, Quota: true}
	w.ReturnRefused([]Refused{{taken[0], refusal}}, now)
	limitedRuns(w, other, 100, 1, 0)
	taken, wait := w.TakeWaiting(now.Add(10*time.Millisecond), 100, all{})
	require.Len(t, taken, 1)
	require.EqualValues(t, 100, taken[0].Queue)
	require.Equal(t, 90*time.Millisecond, wait)
	taken, _ = w.TakeWaiting(now.Add(100*time.Millisecond), 100, all{})
	require.Len(t, taken, 10)
	require.Empty(t, w.waiting.refused)
}

// BenchmarkFullNamespaces takes runs of one namespace while many others are full.
func BenchmarkFullNamespaces(b *testing.B) {
	const many, full = 100_000, 1000
	due := time.Unix(1_000_000, 0)
	namespaces, runs := map[int32]uuid.UUID{}, make([]job.Run, many)
	for i := range runs {
		queue := int32(i % (2 * full))
		if queue >= full {
			queue = full // of the one that is not full
		}
		runs[i] = job.Run{Key: job.Key{Job: uuid.New(), DueAt: due}, RunAt: due, Queue: queue}
		if namespaces[queue] == uuid.Nil {
			namespaces[queue] = uuid.New()
		}
	}
	batches := 0
	for b.Loop() {
		b.StopTimer()
		w := New(0)
		w.SetNamespaces(namespaces)
		w.Add(runs)
		w.advance(slotBefore(due.Add(time.Second)))
		shares := upTo{namespaces[full]: many}
		b.StartTimer()
		for taken := w.Take(due.Add(time.Second), 1000, shares); len(taken) > 0; taken = w.Take(due.Add(time.Second), 1000, shares) {
			w.Release(taken)
			batches++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(batches), "µs/batch")
}
