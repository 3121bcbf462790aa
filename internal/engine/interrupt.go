package engine

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// inFlight is the attempts that this node has claimed and whose completion is not written yet. They can be
// interrupted, and a claim that is resolved does not deliver them again.
type inFlight struct {
	mu       sync.Mutex
	attempts map[job.RunKey]*interruptible
	// unsure is whether an attempt has ended that was claimed again meanwhile, because a failover had lost its first
	// claim. Its outcome may have been fenced before the second claim, and then it is leased and no node delivers it.
	unsure bool
}

type interruptible struct {
	attempt job.Attempt
	cancel  context.CancelFunc // nil: it waits for a deliverer or for its completion to be written
	long    bool               // it was in flight in the last round of "interrupt" already
	again   bool               // it was claimed again meanwhile
}

// is returns whether it is this attempt. A node that has a new session may claim an attempt again that its old session
// had, with the same number, if a failover lost the first claim.
func (i *interruptible) is(session uuid.UUID, attempt int16) bool {
	return i.attempt.Session == session && i.attempt.Number == attempt
}

func newInFlight() inFlight { return inFlight{attempts: map[job.RunKey]*interruptible{}} }

// add adds an attempt that is handed over to the deliverers. It returns false if it is in flight already.
func (f *inFlight) add(a job.Attempt) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := a.Key.RunKey()
	if i := f.attempts[k]; i != nil && i.is(a.Session, a.Number) {
		i.again = true
		return false
	}
	f.attempts[k] = &interruptible{attempt: a}
	return true
}

// has returns whether the attempt of a completion is in flight.
func (f *inFlight) has(c job.Completion) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.attempts[c.Key.RunKey()]
	return i != nil && i.is(c.Session, c.Attempt)
}

// setCancel says how a delivery that begins can be interrupted, or, with nil, that it has ended.
func (f *inFlight) setCancel(a *job.Attempt, cancel context.CancelFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.attempts[a.Key.RunKey()]; i != nil && i.is(a.Session, a.Number) {
		i.cancel = cancel
	}
}

// remove does not remove another attempt of the same run: a node that lost its session for a while may
// have two.
func (f *inFlight) remove(a *job.Attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delete(a.Key, a.Session, a.Number)
}

// removeAll removes attempts whose completion is written.
func (f *inFlight) removeAll(done []job.Completion) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range done {
		f.delete(done[i].Key, done[i].Session, done[i].Attempt)
	}
}

// delete needs the lock.
func (f *inFlight) delete(k job.Key, session uuid.UUID, attempt int16) {
	if i := f.attempts[k.RunKey()]; i != nil && i.is(session, attempt) {
		f.unsure = f.unsure || i.again
		delete(f.attempts, k.RunKey())
	}
}

// takeUnsure returns unsure and resets it.
func (f *inFlight) takeUnsure() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.unsure
	f.unsure = false
	return was
}

// long returns the attempts that were in flight when it was called last.
func (f *inFlight) long() (out []job.Attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.attempts {
		if i.long && i.cancel != nil {
			out = append(out, i.attempt)
		}
		i.long = i.cancel != nil
	}
	return out
}

// Interrupt ends an attempt early if it is in flight on this node, and returns whether it is. The
// outcome that the attempt then reports is fenced, because its run has ended.
func (e *Engine) Interrupt(k job.Key, attempt int16) bool {
	e.inFlight.mu.Lock()
	defer e.inFlight.mu.Unlock()
	i, ok := e.inFlight.attempts[k.RunKey()]
	if !ok || i.attempt.Number != attempt || i.cancel == nil {
		return false
	}
	i.cancel()
	return true
}

const interruptPause = time.Second

// interruptOnce ends attempts whose run was cancelled through another node, replaced by the next run, or
// given to another session. It asks only about attempts that last, so short ones cost nothing.
func (e *Engine) interruptOnce(ctx context.Context) (time.Duration, error) {
	long := e.inFlight.long()
	for len(long) > 0 {
		n := min(len(long), e.Batch)
		fenced, err := e.Claimer.Fenced(ctx, long[:n])
		if err != nil {
			return 0, err
		}
		for _, a := range fenced {
			if e.Interrupt(a.Key, a.Number) {
				e.Log.Info("attempt interrupted: it is no longer live",
					"run", job.FormatRunID(a.Key), "attempt", a.Number)
			}
		}
		long = long[n:]
	}
	return interruptPause, nil
}
