package engine

import (
	"context"
	"sync"

	"github.com/belfry-dev/belfry/internal/job"
)

// underWay is what this node is delivering, so that it can be interrupted.
type underWay struct {
	mu     sync.Mutex
	cancel map[runKey]interruptible
}

type interruptible struct {
	attempt int16
	cancel  context.CancelFunc
}

func (u *underWay) add(a job.Attempt, cancel context.CancelFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cancel[keyOf(a.Key)] = interruptible{a.Number, cancel}
}

// remove leaves another attempt of the run alone: a node whose session was lost
// for a while may have two.
func (u *underWay) remove(a job.Attempt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cancel[keyOf(a.Key)].attempt == a.Number {
		delete(u.cancel, keyOf(a.Key))
	}
}

// Interrupt ends an attempt early if this node is delivering it, and says
// whether it is. What the attempt then reports is fenced: its run has ended.
func (e *Engine) Interrupt(k job.Key, attempt int16) bool {
	e.underWay.mu.Lock()
	defer e.underWay.mu.Unlock()
	i, ok := e.underWay.cancel[keyOf(k)]
	if !ok || i.attempt != attempt {
		return false
	}
	i.cancel()
	return true
}
