package wheel

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// SlotWidth is the resolution of the wheel. Claims begin well before a run is due, so it need not be
// fine.
const SlotWidth = 20 * time.Millisecond

// Wheel is a timing wheel. See the package comment.
type Wheel struct {
	mu      sync.Mutex
	lead    time.Duration
	buckets map[int64][]job.Run // by slot
	ahead   map[int32]int       // how many runs of each queue the buckets have
	slots   slotHeap            // those that have a bucket
	ready   turns
	known   map[job.RunKey]int64 // runs in the wheel, and runs taken and not released, with the slot of their run time
	come    int64                // the last slot whose runs are ready
	busy    map[uuid.UUID]*busyJob
	blocked map[uuid.UUID]*blockedJob
	retries map[int64][]uuid.UUID // the blocked jobs of a slot
	paused  pausedQueues
	waiting waitlists
	changed chan struct{}

	namespaces map[int32]uuid.UUID // of queues
}

// New creates an empty wheel. Callers of Take ask for runs lead ahead of their run time.
func New(lead time.Duration) *Wheel {
	return &Wheel{
		lead:    lead,
		buckets: map[int64][]job.Run{},
		ahead:   map[int32]int{},
		known:   map[job.RunKey]int64{},
		busy:    map[uuid.UUID]*busyJob{},
		blocked: map[uuid.UUID]*blockedJob{},
		retries: map[int64][]uuid.UUID{},
		paused:  newPausedQueues(),
		waiting: newWaitlists(),
		changed: make(chan struct{}, 1),

		namespaces: map[int32]uuid.UUID{},
	}
}

// Changed is signalled when Take may return runs earlier than Next said before.
func (w *Wheel) Changed() <-chan struct{} { return w.changed }

// Signal signals Changed.
func (w *Wheel) Signal() { signal(w.changed) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Len is the number of runs in the wheel, including those taken and not released.
func (w *Wheel) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.known)
}

// Upcoming is the number of runs of each namespace that wait for their run time or for a claim. Runs that wait for a
// permit, a queue or another run of their job are not among them.
func (w *Wheel) Upcoming() map[uuid.UUID]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := map[uuid.UUID]int{}
	for namespace, line := range w.ready.lines {
		of[namespace] += line.size
	}
	for queue, n := range w.ahead {
		of[w.namespaces[queue]] += n
	}
	return of
}

// slotOf is the first slot that begins at the run time or later. A run that is taken is therefore due:
// the database does not claim a run too early, and the wheel would forget it.
func slotOf(t time.Time) int64 { return slotBefore(t.Add(SlotWidth - 1)) }

// slotBefore is the last slot that begins at t or earlier.
func slotBefore(t time.Time) int64 { return t.UnixNano() / int64(SlotWidth) }

// Add adds runs. It ignores runs that are known, except those that wait in the wrong place or for a later run time. A
// run whose time is earlier now gets a second entry: whichever comes later claims nothing.
func (w *Wheel) Add(runs []job.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.firstSlot()
	var moved moves
	for _, r := range runs {
		k, slot := r.RunKey(), slotOf(r.RunAt)
		if at, ok := w.known[k]; ok && (at <= slot || at <= w.come) {
			moved.noteIfMoved(w, k, r)
			continue
		}
		w.known[k] = slot
		w.put(slot, r)
	}
	w.move(&moved)
	if w.firstSlot() != before {
		w.Signal()
	}
}

func (w *Wheel) put(slot int64, r job.Run) {
	bucket, ok := w.buckets[slot]
	if !ok {
		heap.Push(&w.slots, slot)
	}
	w.buckets[slot] = append(bucket, r)
	w.ahead[r.Queue]++
}

// left notes that a run of a queue has left its bucket.
func (w *Wheel) left(queue int32) {
	if w.ahead[queue]--; w.ahead[queue] == 0 {
		delete(w.ahead, queue)
	}
}

func (w *Wheel) firstSlot() int64 {
	if len(w.slots) == 0 {
		return -1
	}
	return w.slots[0]
}

// Next returns when the earliest run may start, or a time long past if runs are ready. It returns false
// if there is no run.
func (w *Wheel) Next() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready.size > 0 {
		return time.Unix(0, 0), true
	}
	if len(w.slots) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, w.slots[0]*int64(SlotWidth)), true
}

func (w *Wheel) pushReady(r job.Run) { w.ready.push(w.namespaces[r.Queue], r) }

// Ready is the number of runs that wait for a claim.
func (w *Wheel) Ready() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready.size
}

// Take takes up to n runs that may start by a time, and at most one of each job. Namespaces take turns, and of each
// namespace the run with the highest priority is first.
// The caller gives each run back with Release or one of the Return methods. Runs of paused queues and
// runs under limits are set aside instead.
func (w *Wheel) Take(until time.Time, n int, shares Shares) []job.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advance(slotBefore(until))
	now := until.Add(-w.lead)
	defer w.ready.restore()
	var out []job.Run
	for len(out) < n && w.ready.turn(shares) {
		namespace, r := w.ready.pop()
		if w.setAsideIfPaused(r) || w.waitIfLimited(r, now) || !w.reserve(r) {
			continue
		}
		shares.Took(namespace)
		out = append(out, r)
	}
	if w.ready.turn(shares) {
		w.Signal() // for the next claimer
	}
	return out
}

// advance makes the runs of all slots up to last ready.
func (w *Wheel) advance(last int64) {
	w.come = last
	for len(w.slots) > 0 && w.slots[0] <= last {
		slot := heap.Pop(&w.slots).(int64)
		for _, r := range w.buckets[slot] {
			w.left(r.Queue)
			w.pushReady(r)
		}
		delete(w.buckets, slot)
		w.wakeAll(slot, last)
	}
}

// Started forgets runs that were taken and are claimed.
func (w *Wheel) Started(runs []job.Run) { w.release(runs, true) }

// Release forgets runs that were taken and have ended, or are no longer this node's.
func (w *Wheel) Release(runs []job.Run) { w.release(runs, false) }

func (w *Wheel) release(runs []job.Run, started bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range runs {
		delete(w.known, r.RunKey())
		w.follow(r, started)
		w.unreserve(r.Job)
	}
}

// Return returns runs that were taken, to be taken again at their run time.
func (w *Wheel) Return(runs []job.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range runs {
		w.put(slotOf(r.RunAt), r)
		w.unreserve(r.Job)
	}
	w.Signal()
}

// ReturnAt returns a run that was taken, to be taken again at a time.
func (w *Wheel) ReturnAt(r job.Run, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.returnAt(r, at)
}

func (w *Wheel) returnAt(r job.Run, at time.Time) {
	w.put(slotOf(at), r)
	w.unreserve(r.Job)
	w.Signal()
}

// RunsEnded makes the first blocked run of each of the jobs ready, and the permits of the ended runs available to
// waitlists.
func (w *Wheel) RunsEnded(done []job.Completion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range done {
		w.runEnded(done[i].Key.Job)
		for _, l := range done[i].Limits {
			w.waiting.addCapacity(l, 1)
		}
	}
}

// DropPartitions forgets the runs of partitions that this node no longer owns. Runs that are taken stay
// known until they are returned.
func (w *Wheel) DropPartitions(partitions []int16) {
	var dropped [job.Partitions]bool
	for _, p := range partitions {
		dropped[p] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	forget := func(r job.Run) bool {
		if dropped[r.Partition] {
			delete(w.known, r.RunKey())
		}
		return dropped[r.Partition]
	}
	w.dropBlocked(forget)
	for slot, bucket := range w.buckets {
		w.buckets[slot] = slices.DeleteFunc(bucket, func(r job.Run) bool {
			gone := forget(r)
			if gone {
				w.left(r.Queue)
			}
			return gone
		})
	}
	w.ready.delete(forget)
	w.paused.delete(forget)
	w.waiting.delete(forget)
	w.dropBusy(forget, func(b *busyJob) bool { return dropped[b.partition] })
}
