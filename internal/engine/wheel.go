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
// and a heap of the slots that have one. Adding is cheap, and half a million
// runs of one second are taken slot by slot. Safe for concurrent use.
type wheel struct {
	mu      sync.Mutex
	buckets map[int64][]job.Run
	slots   slotHeap
	known   map[job.Key]struct{}
	// busy jobs have a run between take and release: a second one of them must
	// not be in a claim at the same time.
	busy map[uuid.UUID]struct{}
	// changed is signalled when an earlier slot than before was added.
	changed chan struct{}
}

func newWheel() *wheel {
	return &wheel{
		buckets: map[int64][]job.Run{}, known: map[job.Key]struct{}{}, busy: map[uuid.UUID]struct{}{},
		changed: make(chan struct{}, 1),
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
		if _, ok := w.known[r.Key]; ok {
			continue
		}
		w.known[r.Key] = struct{}{}
		w.put(r)
	}
	if w.first() != before {
		w.signal()
	}
}

// put adds a run that is known to be new. The lock is held.
func (w *wheel) put(r job.Run) {
	slot := slotOf(r.RunAt)
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

// next is when the earliest run may start; false if there is none.
func (w *wheel) next() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.slots) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, w.slots[0]*int64(slotWidth)), true
}

// take removes up to n runs that may start by a time, higher priority first,
// and at most one of a job. What it passes over stays for the next call.
func (w *wheel) take(until time.Time, n int) []job.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out, later []job.Run
	limit := slotBefore(until)
	for len(out) < n && len(w.slots) > 0 && w.slots[0] <= limit {
		slot := heap.Pop(&w.slots).(int64)
		bucket := w.buckets[slot]
		delete(w.buckets, slot)
		slices.SortStableFunc(bucket, func(a, b job.Run) int { return int(b.Priority) - int(a.Priority) })
		for _, r := range bucket {
			if _, busy := w.busy[r.Job]; busy || len(out) == n {
				later = append(later, r)
				continue
			}
			w.busy[r.Job] = struct{}{}
			delete(w.known, r.Key)
			out = append(out, r)
		}
	}
	for _, r := range later {
		w.put(r)
	}
	return out
}

// release says that the claim of a job's run is over.
func (w *wheel) release(runs []job.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range runs {
		delete(w.busy, r.Job)
	}
	w.signal()
}

// drop forgets the runs of partitions that are no longer owned.
func (w *wheel) drop(partitions []int16) {
	var gone [job.Partitions]bool
	for _, p := range partitions {
		gone[p] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for slot, bucket := range w.buckets {
		w.buckets[slot] = slices.DeleteFunc(bucket, func(r job.Run) bool {
			if gone[r.Partition] {
				delete(w.known, r.Key)
			}
			return gone[r.Partition]
		})
	}
}

func (w *wheel) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.known)
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
