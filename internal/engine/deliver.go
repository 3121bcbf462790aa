package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// deliver is one slot: it delivers claimed attempts, one after the other.
func (e *Engine) deliver(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for a := range e.claimed {
		deferred := e.deliverClaimed(ctx, timer, a)
		e.slots.end(a.Namespace, deferred)
	}
}

// deliverClaimed delivers an attempt at its run time. An attempt that is interrupted before does not
// start. Neither does one whose session has ended: its run is rescued. It returns whether the attempt was deferred.
func (e *Engine) deliverClaimed(ctx context.Context, timer *time.Timer, a job.Attempt) (deferred bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.inFlight.setCancel(&a, cancel)
	if !e.awaitRunTime(ctx, timer, a.RunAt) || !e.awaitLease(ctx, timer, a.Session) {
		e.inFlight.remove(&a)
		return false
	}
	late, began := -e.Bound.Until(a.RunAt), clock.Elapsed()
	a.Unsampled = e.Tracer != nil && !e.Tracer.Sampled(a.Key, a.Trace)
	o := e.deliverOne(ctx, &a)
	if o.Kind != job.Deferred { // a deferred attempt did not start: its target was busy
		e.Observe.Started(a.Queue, late)
	}
	e.Observe.Ended(a.Queue, o, clock.Elapsed()-began)
	e.inFlight.setCancel(&a, nil)
	// Blocks while the completers are behind, which keeps the slot occupied.
	c := a.Completion(o)
	c.Late = late
	if plainSuccess(&c) {
		e.succeeded.put(a.Namespace, c)
	} else {
		e.decided.put(a.Namespace, c)
	}
	return o.Kind == job.Deferred
}

// awaitRunTime waits until the database clock has certainly reached a time. Runs are claimed a little
// before theirs. It asks the bound again and again, because a clock that was in doubt may be right again
// long before the wait would end. It returns false if ctx is done first.
func (e *Engine) awaitRunTime(ctx context.Context, timer *time.Timer, at time.Time) bool {
	for wait := e.Bound.Until(at); wait > 0 && ctx.Err() == nil; wait = e.Bound.Until(at) {
		timer.Reset(min(wait, e.Lead))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// awaitLease returns whether a session is still this node's. A node that was suspended may get here
// after other nodes have taken over its work. While it is unknown whether the session lives, it waits:
// it must neither start a run that may be another node's nor forget one that is its own.
func (e *Engine) awaitLease(ctx context.Context, timer *time.Timer, session uuid.UUID) bool {
	for session == e.Member.Session() && ctx.Err() == nil {
		if e.Member.Valid() {
			return true
		}
		timer.Reset(idlePause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return false
}

// A run whose target this node does not have waits a moment for a node that does, and longer each time.
const (
	kindPause    = 5 * time.Second
	maxKindPause = time.Minute
)

// deliverOne calls the target of an attempt within its timeout.
func (e *Engine) deliverOne(ctx context.Context, a *job.Attempt) (o job.Outcome) {
	if a.Kind == "" {
		return job.Outcome{Kind: job.Cancelled, Reason: job.ReasonDeleted}
	}
	target, ok := e.Targets[a.Kind]
	if !ok {
		return job.Outcome{
			Kind: job.Deferred, NeedsKind: a.Kind, RetryAfter: min(time.Duration(a.Number)*kindPause, maxKindPause),
			Message: fmt.Sprintf("targets of kind %q are not enabled on the node that owned the run; "+
				"another node may have them, or enable them: setting command.enabled for commands", a.Kind),
		}
	}
	if a.KeyProblem != "" {
		return a.WithoutKey()
	}
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	defer func() {
		// A bug in one target must not end the node.
		if r := recover(); r != nil {
			e.Log.Error("target panicked", "kind", a.Kind, "run", job.FormatRunID(a.Key), "panic", r)
			o = job.Outcome{
				Kind: job.Failed, Retryable: true, Message: "the target's code panicked; see the node's log",
			}
		}
	}()
	return target.Deliver(ctx, *a)
}
