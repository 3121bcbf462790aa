package engine

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Queues is the store, as paused and limited queues see it.
type Queues interface {
	SpecialQueues(ctx context.Context) (paused, limited []int32, err error)
}

// queuePause is how long a node may not know that a queue was paused or resumed.
// A limit is heeded from its first moment on: the store refuses what it forbids.
const queuePause = time.Second

// queuesOnce tells the wheel which queues are paused, and which have limits.
func (e *Engine) queuesOnce(ctx context.Context) (time.Duration, error) {
	if e.Queues == nil {
		return time.Hour, nil
	}
	paused, limited, err := e.Queues.SpecialQueues(ctx)
	if err != nil {
		return 0, err
	}
	e.wheel.pause(paused)
	if e.Limits != nil {
		e.wheel.limit(limited)
	}
	if !e.queuesKnown.Swap(true) {
		e.wheel.signal()
	}
	return queuePause, nil
}

// mayClaim: nothing is started before it is known which queues are paused.
func (e *Engine) mayClaim() bool { return e.Queues == nil || e.queuesKnown.Load() }

// pause sets the queues whose runs are held. Those of the others are ready again.
func (w *wheel) pause(queues []int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(queues) == 0 && len(w.held) == 0 && len(w.paused) == 0 {
		return
	}
	w.paused = make(map[int32]bool, len(queues))
	for _, q := range queues {
		w.paused[q] = true
	}
	for q, runs := range w.held {
		if w.paused[q] {
			continue
		}
		for _, r := range runs {
			w.ready[clampPriority(r.Priority)].push(r)
			delete(w.heldIn, keyOf(r.Key))
		}
		delete(w.held, q)
	}
	w.signal()
}

// hold keeps a run that is ready back if its queue is paused. The lock is held.
func (w *wheel) hold(r job.Run) bool {
	if len(w.paused) == 0 || !w.paused[r.Queue] {
		return false
	}
	w.held[r.Queue] = append(w.held[r.Queue], r)
	w.heldIn[keyOf(r.Key)] = r.Queue
	w.yieldTurn(r)
	return true
}

// moves are runs that wait in a lane, or in a queue that is paused, and whose job has been moved to another one.
type moves struct {
	runs   []job.Run
	keys   map[runKey]struct{}
	jobs   map[jobInLane]struct{} // where they are,
	queues map[int32]struct{}     // or there
}

type jobInLane struct {
	lane laneID
	job  uuid.UUID
}

// note adds a run that is known, if it has to move. The lock is held.
func (m *moves) note(w *wheel, k runKey, r job.Run) {
	id, inLane := w.lanes.in[k]
	q, held := w.heldIn[k]
	if (!inLane || id == w.lanes.idOf(r)) && (!held || q == r.Queue) {
		return
	}
	if m.keys == nil {
		m.keys, m.jobs, m.queues = map[runKey]struct{}{}, map[jobInLane]struct{}{}, map[int32]struct{}{}
	}
	if _, twice := m.keys[k]; twice {
		return
	}
	m.runs = append(m.runs, r)
	m.keys[k] = struct{}{}
	if inLane {
		m.jobs[jobInLane{id, r.Job}] = struct{}{}
	} else {
		m.queues[q] = struct{}{}
	}
}

func (m *moves) has(r job.Run) bool {
	_, ok := m.keys[keyOf(r.Key)]
	return ok
}

// requeue takes runs from where they wait, all of a place at once: thousands move when a queue gets its first limit. The lock is held.
func (w *wheel) requeue(m *moves) {
	if len(m.runs) == 0 {
		return
	}
	for at := range m.jobs {
		w.lanes.remove(at.lane, at.job, m.has)
	}
	for q := range m.queues {
		w.held[q] = slices.DeleteFunc(w.held[q], m.has)
	}
	for _, r := range m.runs {
		delete(w.heldIn, keyOf(r.Key))
		w.put(r)
	}
	w.signal()
}
