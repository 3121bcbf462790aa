package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// deliver is one slot: it delivers claimed attempts, one after the other.
func (e *Engine) deliver(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for a := range e.claimed {
		e.deliverClaimed(ctx, timer, a)
		e.slots.release(1)
	}
}

// deliverClaimed delivers an attempt when its time has come. One that was
// interrupted until then does not start; nor does one whose session is over:
// its run is rescued, or was.
func (e *Engine) deliverClaimed(ctx context.Context, timer *time.Timer, a job.Attempt) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.underWay.add(a, cancel)
	defer e.underWay.remove(a)
	if !e.awaitTime(ctx, timer, a.RunAt) || !e.leased(ctx, timer, a.Session) {
		return
	}
	late := -e.Bound.Until(a.RunAt)
	o := e.deliverOne(ctx, &a)
	if o.Kind != job.Deferred { // else it did not start: its target had no room
		e.Observe.Started(late)
	}
	e.Observe.Ended(o)
	// Blocks while the completers are behind, and so keeps the slot.
	e.completed <- job.Completion{Key: a.Key, Attempt: a.Number, Outcome: o, OwnKey: a.OwnKey, Limits: a.Limits}
}

// leased says whether a session is still this node's. A node that stood still may
// find itself here when others have taken its work long since. While it is not
// known whether the session lives it waits: it must neither start a run that
// may be another's nor forget one that is its own.
func (e *Engine) leased(ctx context.Context, timer *time.Timer, session uuid.UUID) bool {
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

// awaitTime waits until the database's clock has surely reached a time. Runs
// are claimed a little before theirs.
func (e *Engine) awaitTime(ctx context.Context, timer *time.Timer, at time.Time) bool {
	for wait := e.Bound.Until(at); wait > 0 && ctx.Err() == nil; wait = e.Bound.Until(at) {
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

func (e *Engine) deliverOne(ctx context.Context, a *job.Attempt) (o job.Outcome) {
	if a.Kind == "" {
		return job.Outcome{Kind: job.Cancelled, Reason: job.ReasonDeleted}
	}
	target, ok := e.Targets[a.Kind]
	if !ok {
		// Another version may know it: not a failure for good.
		return job.Outcome{Kind: job.Failed, Retryable: true, Message: fmt.Sprintf("this node has no target of kind %q", a.Kind)}
	}
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	keyed := false
	defer func() {
		if keyed {
			a.KeepKey(o)
		}
	}()
	defer func() {
		// One target's bug must not take the node and its neighbours along.
		if r := recover(); r != nil {
			e.Log.Error("target panicked", "kind", a.Kind, "run", job.FormatRunID(a.Key), "panic", r)
			o = job.Outcome{Kind: job.Failed, Retryable: true, Message: "the target's code panicked; see the node's log"}
		}
	}()
	if err := a.MakeKey(); err != nil {
		return job.Outcome{Kind: job.Failed, Message: err.Error()}
	}
	keyed = true
	return target.Deliver(ctx, *a)
}
