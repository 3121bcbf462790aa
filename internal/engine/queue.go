package engine

import (
	"context"
	"slices"
	"time"

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

// requeue takes a run that is held out of its queue, or that waits out of its
// lane, if the job has been moved to another one. The lock is held.
func (w *wheel) requeue(k runKey, r job.Run) {
	if id, ok := w.lanes.in[k]; ok && id != w.lanes.idOf(r) {
		w.lanes.remove(id, k)
		w.put(r)
		w.signal()
		return
	}
	q, ok := w.heldIn[k]
	if !ok || q == r.Queue {
		return
	}
	w.held[q] = slices.DeleteFunc(w.held[q], func(h job.Run) bool { return keyOf(h.Key) == k })
	delete(w.heldIn, k)
	w.put(r)
	w.signal()
}
