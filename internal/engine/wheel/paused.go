package wheel

import (
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// pausedQueues is the queues that start nothing, and the runs that were ready to start in them.
type pausedQueues struct {
	set     map[int32]bool
	runs    map[int32][]job.Run
	queueOf map[job.RunKey]int32
}

func newPausedQueues() pausedQueues {
	return pausedQueues{runs: map[int32][]job.Run{}, queueOf: map[job.RunKey]int32{}}
}

// delete removes runs that gone returns true for.
func (p *pausedQueues) delete(gone func(job.Run) bool) {
	for q, runs := range p.runs {
		p.runs[q] = slices.DeleteFunc(runs, func(r job.Run) bool {
			if !gone(r) {
				return false
			}
			delete(p.queueOf, r.RunKey())
			return true
		})
	}
}

// SetPaused sets the queues that are paused. Runs that were set aside in other queues are ready again.
func (w *Wheel) SetPaused(queues []int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.paused
	if len(queues) == 0 && len(p.runs) == 0 && len(p.set) == 0 {
		return
	}
	p.set = make(map[int32]bool, len(queues))
	for _, q := range queues {
		p.set[q] = true
	}
	for q, runs := range p.runs {
		if p.set[q] {
			continue
		}
		for _, r := range runs {
			w.pushReady(r)
			delete(p.queueOf, r.RunKey())
		}
		delete(p.runs, q)
	}
	w.Signal()
}

// setAsideIfPaused keeps a ready run if its queue is paused.
func (w *Wheel) setAsideIfPaused(r job.Run) bool {
	p := &w.paused
	if len(p.set) == 0 || !p.set[r.Queue] {
		return false
	}
	p.runs[r.Queue] = append(p.runs[r.Queue], r)
	p.queueOf[r.RunKey()] = r.Queue
	w.skipTurn(r)
	return true
}

// ReturnIfPaused returns a run that was taken if its queue has been paused since.
func (w *Wheel) ReturnIfPaused(r job.Run) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.setAsideIfPaused(r) {
		return false
	}
	w.unreserve(r.Job)
	return true
}

// moves collects runs that wait in the wrong place: on a waitlist or in a paused queue that their job,
// or their queue's first limit, has made them leave.
type moves struct {
	runs   []job.Run
	keys   map[job.RunKey]struct{}
	lists  map[jobInList]struct{} // where they are now,
	queues map[int32]struct{}     // or there
}

type jobInList struct {
	list listID
	job  uuid.UUID
}

// noteIfMoved notes a known run if it has to move.
func (m *moves) noteIfMoved(w *Wheel, k job.RunKey, r job.Run) {
	list, waits := w.waiting.listOf[k]
	queue, paused := w.paused.queueOf[k]
	if (!waits || list == w.waiting.listFor(r)) && (!paused || queue == r.Queue) {
		return
	}
	if m.keys == nil {
		m.keys, m.lists, m.queues = map[job.RunKey]struct{}{}, map[jobInList]struct{}{}, map[int32]struct{}{}
	}
	if _, twice := m.keys[k]; twice {
		return
	}
	m.runs = append(m.runs, r)
	m.keys[k] = struct{}{}
	if waits {
		m.lists[jobInList{list, r.Job}] = struct{}{}
	} else {
		m.queues[queue] = struct{}{}
	}
}

func (m *moves) has(r job.Run) bool {
	_, ok := m.keys[r.RunKey()]
	return ok
}

// move moves runs back to their slots. It empties each place in one pass: thousands of runs move when
// their queue gets its first limit.
func (w *Wheel) move(m *moves) {
	if len(m.runs) == 0 {
		return
	}
	for at := range m.lists {
		w.waiting.deleteFrom(at.list, at.job, m.has)
	}
	for q := range m.queues {
		w.paused.runs[q] = slices.DeleteFunc(w.paused.runs[q], m.has)
	}
	for _, r := range m.runs {
		delete(w.paused.queueOf, r.RunKey())
		w.put(slotOf(r.RunAt), r)
	}
	w.Signal()
}
