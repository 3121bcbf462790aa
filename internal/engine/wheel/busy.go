package wheel

import (
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// busyJob is a job with a run that is taken, or about to be. Its other ready runs wait here, in order.
type busyJob struct {
	partition int16
	waiting   []job.Run
	taken     job.RunKey  // while next is nil
	ended     bool        // a run of the job has ended since
	next      *job.RunKey // the run that may be taken now and is ready; nil while one is taken
}

// reserve makes the job of a run busy so that the run can be taken. If another run of the job is taken,
// it returns false and keeps the run until that one is returned.
func (w *Wheel) reserve(r job.Run) bool {
	b := w.busy[r.Job]
	switch {
	case b == nil:
		w.busy[r.Job] = &busyJob{partition: r.Partition, taken: r.RunKey()}
	case b.next != nil && *b.next == r.RunKey():
		b.taken, b.next, b.ended = *b.next, nil, false
	default:
		b.wait(r)
		return false
	}
	return true
}

func (b *busyJob) wait(r job.Run) {
	i, _ := slices.BinarySearchFunc(b.waiting, r, func(x, r job.Run) int { return x.CompareDue(r.Key) })
	b.waiting = slices.Insert(b.waiting, i, r)
}

// Taken returns whether a run is taken and not yet returned.
func (w *Wheel) Taken(k job.RunKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.busy[k.Job]
	return b != nil && b.next == nil && b.taken == k
}

// unreserve lets the next run of a job be taken.
func (w *Wheel) unreserve(id uuid.UUID) {
	b := w.busy[id]
	if b == nil {
		return // its partition was dropped in the meantime
	}
	if len(b.waiting) == 0 {
		delete(w.busy, id)
		w.waiting.restore(id)
		return
	}
	r := b.waiting[0]
	k := r.RunKey()
	b.waiting, b.next = b.waiting[1:], &k
	w.pushReady(r)
	w.Signal()
}

// skipTurn is for a ready run that is set aside: if it was its turn, the next run of its job gets it.
func (w *Wheel) skipTurn(r job.Run) {
	if b := w.busy[r.Job]; b != nil && b.next != nil && *b.next == r.RunKey() {
		w.unreserve(r.Job)
	}
}

// dropBusy forgets the waiting runs of jobs in dropped partitions. A job whose next run was ready is
// not busy any longer, because that run is dropped too.
func (w *Wheel) dropBusy(forget func(job.Run) bool, dropped func(*busyJob) bool) {
	for id, b := range w.busy {
		if !dropped(b) {
			continue
		}
		for _, r := range b.waiting {
			forget(r)
		}
		b.waiting = nil
		if b.next != nil {
			delete(w.busy, id)
			w.waiting.restore(id)
		}
	}
}
