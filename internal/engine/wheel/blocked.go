package wheel

import (
	"container/heap"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// BlockedPause is how long a job whose runs wait for another one of it is left alone. Its first run is taken again
// earlier if RunsEnded reports the end of a run of the job.
const BlockedPause = time.Second

// blockedJob is a job with runs that wait for the end of another run of it. Each of them was decided about once. From
// then on only the first is taken again, so that a long line costs no more than a short one.
type blockedJob struct {
	runs []blockedRun // in the order in which they are to start
	slot int64        // in which the first is taken again
	// woken is the run that left the line last, and ended whether it did because a run of the job ended.
	woken job.RunKey
	ended bool
}

type blockedRun struct {
	job.Run
	expires time.Time // taken again then, to be skipped; zero: never
}

// ReturnBlocked returns a run that has to wait for the end of another run of its job. The first such run of a job is
// taken again at a time, or earlier if RunsEnded reports that a run of the job has ended; the others after it has
// started, or when they expire.
func (w *Wheel) ReturnBlocked(r job.Run, at, expires time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.blocked[r.Job]
	if b == nil {
		b = &blockedJob{}
		w.blocked[r.Job] = b
		w.wakeAt(r.Job, b, slotOf(at))
	}
	i, _ := slices.BinarySearchFunc(b.runs, r, func(x blockedRun, r job.Run) int { return x.CompareDue(r.Key) })
	b.runs = slices.Insert(b.runs, i, blockedRun{r, expires})
	if busy := w.busy[r.Job]; busy != nil && busy.ended { // since the database was asked
		w.wake(r.Job, b, true)
	}
	w.unreserve(r.Job)
}

// wakeAt has the first run of a blocked job taken again in a slot.
func (w *Wheel) wakeAt(id uuid.UUID, b *blockedJob, slot int64) {
	b.slot = slot
	if _, ok := w.buckets[slot]; !ok {
		heap.Push(&w.slots, slot)
		w.buckets[slot] = nil
		if w.firstSlot() == slot {
			w.Signal()
		}
	}
	w.retries[slot] = append(w.retries[slot], id)
}

// wake lets the first run of a blocked job be taken again.
func (w *Wheel) wake(id uuid.UUID, b *blockedJob, ended bool) {
	r := b.runs[0]
	b.runs = b.runs[1:]
	b.woken, b.ended = r.RunKey(), ended
	if len(b.runs) == 0 {
		delete(w.blocked, id)
	}
	w.again(r.Run)
	w.Signal()
}

// again lets a run that was blocked be taken, when it is its turn among the runs of its job.
func (w *Wheel) again(r job.Run) {
	if busy := w.busy[r.Job]; busy != nil {
		busy.wait(r)
	} else {
		w.pushReady(r)
	}
}

// wakeAll wakes the jobs whose slot has come, and runs that expire.
func (w *Wheel) wakeAll(slot, last int64) {
	for _, id := range w.retries[slot] {
		b := w.blocked[id]
		if b == nil || b.slot != slot {
			continue // it was woken earlier
		}
		w.wake(id, b, false)
		b.runs = slices.DeleteFunc(b.runs, func(r blockedRun) bool {
			expired := !r.expires.IsZero() && slotOf(r.expires.Add(w.lead)) < last
			if expired {
				w.again(r.Run)
			}
			return expired
		})
		if len(b.runs) == 0 {
			delete(w.blocked, id)
		} else {
			w.wakeAt(id, b, last+int64(BlockedPause/SlotWidth))
		}
	}
	delete(w.retries, slot)
}

// follow lets the next run of a blocked job follow one that has left the wheel. If that one started because another had
// ended, the next waits for its end: only after a start for no such reason the job may allow more than one.
func (w *Wheel) follow(r job.Run, started bool) {
	b := w.blocked[r.Job]
	if b != nil && b.woken == r.RunKey() && (!started || !b.ended) {
		w.wake(r.Job, b, b.ended)
	}
}

// runEnded wakes the first run of a blocked job.
func (w *Wheel) runEnded(id uuid.UUID) {
	if b := w.busy[id]; b != nil {
		b.ended = true
	}
	if b := w.blocked[id]; b != nil {
		w.wake(id, b, true)
	}
}

// dropBlocked forgets the blocked runs of dropped partitions.
func (w *Wheel) dropBlocked(forget func(job.Run) bool) {
	for id, b := range w.blocked {
		b.runs = slices.DeleteFunc(b.runs, func(r blockedRun) bool { return forget(r.Run) })
		if len(b.runs) == 0 {
			delete(w.blocked, id)
		}
	}
}
