package engine

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// slotWidth is how finely the wheel tells times apart. Claims begin well before
// a run is due, so it need not be fine.
const slotWidth = 20 * time.Millisecond

// wheel keeps runs by the time they may start: a bucket for each slot of time,
// and a heap of the slots that have one. Runs whose slot has come are ready:
// taken by priority, and in the order of their time within one. Each step
// costs the same however many runs share a slot. Safe for concurrent use.
type wheel struct {
	mu      sync.Mutex
	buckets map[int64][]job.Run
	slots   slotHeap
	ready   [job.MaxPriority + 1]fifo
	known   map[runKey]struct{} // of all runs here and those taken and not released
	busy    map[uuid.UUID]*busyJob
	paused  map[int32]bool      // queues that start nothing
	held    map[int32][]job.Run // their runs that were ready, which are known
	heldIn  map[runKey]int32    // and in which of them each is
	lanes   lanes
	lead    time.Duration
	parked  map[uuid.UUID]int64 // jobs with a run that waits for the end of another: its slot
	// changed is signalled when there is something to take earlier than before.
	changed chan struct{}
}

// busyJob has a run between take and release: a second one of it must not be in
// a claim at the same time. Those that come up wait here for their turn.
type busyJob struct {
	partition int16
	waiting   []job.Run
	next      *runKey // the one that may be taken now, which is ready; nil while one is taken
}

// runKey is a job.Key without pointers: the garbage collector need not look at
// a map of it, and equal instants are equal.
type runKey struct {
	job uuid.UUID
	due int64
	seq int16
}

func keyOf(k job.Key) runKey { return runKey{k.Job, k.DueAt.UnixMicro(), k.Seq} }

func newWheel(lead time.Duration) *wheel {
	return &wheel{
		buckets: map[int64][]job.Run{}, known: map[runKey]struct{}{}, busy: map[uuid.UUID]*busyJob{}, parked: map[uuid.UUID]int64{}, held: map[int32][]job.Run{}, heldIn: map[runKey]int32{},
		lanes: newLanes(), lead: lead, changed: make(chan struct{}, 1),
	}
}

// slotOf is the first slot that begins when the run may start, or after: a run
// that is taken is due. One that is claimed too early is neither claimed nor
// known any more.
func slotOf(t time.Time) int64 { return slotBefore(t.Add(slotWidth - 1)) }

// slotBefore is the last slot that begins at t, or before.
func slotBefore(t time.Time) int64 { return t.UnixNano() / int64(slotWidth) }

// add takes runs in; those that it knows already are left as they are.
func (w *wheel) add(runs []job.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.first()
	for _, r := range runs {
		k := keyOf(r.Key)
		if _, ok := w.known[k]; ok {
			w.requeue(k, r)
			continue
		}
		w.known[k] = struct{}{}
		w.put(r)
	}
	if w.first() != before {
		w.signal()
	}
}

// put adds a run to the bucket of its time. The lock is held.
func (w *wheel) put(r job.Run) { w.putInto(slotOf(r.RunAt), r) }

func (w *wheel) putInto(slot int64, r job.Run) {
	bucket, ok := w.buckets[slot]
	if !ok {
		heap.Push(&w.slots, slot)
	}
	w.buckets[slot] = append(bucket, r)
}

func (w *wheel) first() int64 {
	if len(w.slots) == 0 {
		return -1
	}
	return w.slots[0]
}

func (w *wheel) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// next is when the earliest run may start, a time long past if some are ready;
// false if there is none.
func (w *wheel) next() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.readyCount() > 0 {
		return time.Unix(0, 0), true
	}
	if len(w.slots) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, w.slots[0]*int64(slotWidth)), true
}

func (w *wheel) readyCount() (n int) {
	for i := range w.ready {
		n += w.ready[i].len()
	}
	return n
}

// take hands out up to n runs that may start by a time, higher priority first,
// and at most one of a job. Each is to be given back with release or postpone.
func (w *wheel) take(until time.Time, n int) []job.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := slotBefore(until)
	for len(w.slots) > 0 && w.slots[0] <= limit {
		slot := heap.Pop(&w.slots).(int64)
		for _, r := range w.buckets[slot] {
			w.ready[clampPriority(r.Priority)].push(r)
			if w.parked[r.Job] == slot {
				delete(w.parked, r.Job)
			}
		}
		delete(w.buckets, slot)
	}
	var out []job.Run
	for p := len(w.ready) - 1; p >= 0; p-- {
		for len(out) < n && w.ready[p].len() > 0 {
			r := w.ready[p].pop()
			if w.hold(r) || w.queueUp(r, until.Add(-w.lead)) || !w.turn(r) {
				continue
			}
			out = append(out, r)
		}
	}
	if w.readyCount() > 0 {
		w.signal() // for the next claimer
	}
	return out
}

// turn takes a run, unless another of its job is taken: then it waits for its
// turn. The lock is held.
func (w *wheel) turn(r job.Run) bool {
	b := w.busy[r.Job]
	switch {
	case b == nil:
		w.busy[r.Job] = &busyJob{partition: r.Partition}
	case b.next != nil && *b.next == keyOf(r.Key):
		b.next = nil
	default:
		b.waiting = append(b.waiting, r)
		return false
	}
	return true
}

// yieldTurn gives the turn of a run away that cannot use it. The lock is held.
func (w *wheel) yieldTurn(r job.Run) {
	if b := w.busy[r.Job]; b != nil && b.next != nil && *b.next == keyOf(r.Key) {
		w.free(r.Job)
	}
}

func clampPriority(p int16) int16 { return min(max(p, 0), job.MaxPriority) }

// release says that the claim of runs is over and the wheel need not know them.
func (w *wheel) release(runs []job.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range runs {
		delete(w.known, keyOf(r.Key))
		w.free(r.Job)
	}
}

// postpone takes runs back that were taken: by their RunAt.
func (w *wheel) postpone(runs []job.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range runs {
		w.put(r)
		w.free(r.Job)
	}
	w.signal()
}

// postponeTo takes a run back that was taken, until a time.
func (w *wheel) postponeTo(r job.Run, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putInto(slotOf(at), r)
	w.free(r.Job)
	w.signal()
}

// park takes a run back that waits for the end of another of its job: it is
// taken again at a time, or when hasten says that one has ended.
func (w *wheel) park(r job.Run, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked[r.Job] = slotOf(at)
	w.putInto(slotOf(at), r)
	w.free(r.Job)
	w.signal()
}

// hasten makes what is parked of jobs ready now.
func (w *wheel) hasten(done []job.Completion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.parked) == 0 {
		return
	}
	for _, d := range done {
		slot, ok := w.parked[d.Key.Job]
		if !ok {
			continue
		}
		delete(w.parked, d.Key.Job)
		if w.buckets[slot] == nil {
			continue
		}
		w.buckets[slot] = slices.DeleteFunc(w.buckets[slot], func(r job.Run) bool {
			if r.Job == d.Key.Job {
				w.ready[clampPriority(r.Priority)].push(r)
			}
			return r.Job == d.Key.Job
		})
		w.signal()
	}
}

// free lets the next run of a job be taken. The lock is held.
func (w *wheel) free(id uuid.UUID) {
	b := w.busy[id]
	if b == nil {
		return // its partition was dropped meanwhile
	}
	if len(b.waiting) == 0 {
		delete(w.busy, id)
		return
	}
	r := b.waiting[0]
	k := keyOf(r.Key)
	b.waiting, b.next = b.waiting[1:], &k
	w.ready[clampPriority(r.Priority)].push(r)
	w.signal()
}

// drop forgets the runs of partitions that are no longer owned.
func (w *wheel) drop(partitions []int16) {
	var gone [job.Partitions]bool
	for _, p := range partitions {
		gone[p] = true
	}
	forget := func(r job.Run) bool {
		if gone[r.Partition] {
			delete(w.known, keyOf(r.Key))
			delete(w.heldIn, keyOf(r.Key))
		}
		return gone[r.Partition]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.parked {
		if gone[job.PartitionOf(id)] {
			delete(w.parked, id)
		}
	}
	for slot, bucket := range w.buckets {
		w.buckets[slot] = slices.DeleteFunc(bucket, forget)
	}
	for i := range w.ready {
		w.ready[i].delete(forget)
	}
	for q, runs := range w.held {
		w.held[q] = slices.DeleteFunc(runs, forget)
	}
	w.lanes.drop(forget)
	for id, b := range w.busy {
		if !gone[b.partition] {
			continue
		}
		for _, r := range b.waiting {
			forget(r)
		}
		b.waiting = nil
		if b.next != nil { // it was ready, and is gone
			delete(w.busy, id)
		}
	}
}

func (w *wheel) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.known)
}

// fifo is a queue of runs.
type fifo struct {
	runs []job.Run
	head int
}

func (f *fifo) len() int { return len(f.runs) - f.head }

func (f *fifo) push(r job.Run) { f.runs = append(f.runs, r) }

func (f *fifo) pop() job.Run {
	r := f.runs[f.head]
	f.head++
	switch {
	case f.head == len(f.runs):
		f.runs, f.head = f.runs[:0], 0
	case f.head >= 4096 && f.head*2 >= len(f.runs): // give room back, now and then
		f.runs, f.head = slices.Clone(f.runs[f.head:]), 0
	}
	return r
}

func (f *fifo) delete(gone func(job.Run) bool) {
	f.runs, f.head = slices.DeleteFunc(f.runs[f.head:], gone), 0
}

// slotHeap is a min-heap of slots.
type slotHeap []int64

func (h slotHeap) Len() int           { return len(h) }
func (h slotHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h slotHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *slotHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *slotHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
