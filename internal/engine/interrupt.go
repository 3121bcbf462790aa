package engine

import (
	"context"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// underWay is what this node is delivering, so that it can be interrupted.
type underWay struct {
	mu     sync.Mutex
	cancel map[runKey]*interruptible
}

type interruptible struct {
	attempt job.Attempt
	cancel  context.CancelFunc
	long    bool // it was under way at the last look already
}

func (u *underWay) add(a job.Attempt, cancel context.CancelFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cancel[keyOf(a.Key)] = &interruptible{attempt: a, cancel: cancel}
}

// remove leaves another attempt of the run alone: a node whose session was lost
// for a while may have two.
func (u *underWay) remove(a job.Attempt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := u.cancel[keyOf(a.Key)]; i != nil && i.attempt.Number == a.Number {
		delete(u.cancel, keyOf(a.Key))
	}
}

// Interrupt ends an attempt early if this node is delivering it, and says
// whether it is. What the attempt then reports is fenced: its run has ended.
func (e *Engine) Interrupt(k job.Key, attempt int16) bool {
	e.underWay.mu.Lock()
	defer e.underWay.mu.Unlock()
	i, ok := e.underWay.cancel[keyOf(k)]
	if !ok || i.attempt.Number != attempt {
		return false
	}
	i.cancel()
	return true
}

// interruptPause is how often attempts that last are asked about.
const interruptPause = time.Second

// interruptOnce ends the attempts that nobody wants any longer: their run was
// cancelled through another node, replaced by the next one, or given to another
// session. Only those are asked about that last, so short ones cost nothing.
func (e *Engine) interruptOnce(ctx context.Context) (time.Duration, error) {
	long := e.underWay.long()
	for len(long) > 0 {
		n := min(len(long), e.Batch)
		fenced, err := e.Claimer.Fenced(ctx, long[:n])
		if err != nil {
			return 0, err
		}
		for _, a := range fenced {
			if e.Interrupt(a.Key, a.Number) {
				e.Log.Info("attempt interrupted: its run has ended or is another's", "run", job.FormatRunID(a.Key), "attempt", a.Number)
			}
		}
		long = long[n:]
	}
	return interruptPause, nil
}

// long returns what was under way at the last look already.
func (u *underWay) long() (out []job.Attempt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, i := range u.cancel {
		if i.long {
			out = append(out, i.attempt)
		}
		i.long = true
	}
	return out
}
