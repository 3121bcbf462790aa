package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

const (
	doubtPause    = 100 * time.Millisecond // before it is asked again, growing
	doubtMaxPause = 2 * time.Second
)

// doubt settles a claim that failed: it may have been committed all the same,
// and the connection died before the answer came. Its runs are then leased to
// this session, which lives, so nobody rescues them, and nobody delivers them.
// Whoever claimed them has to ask until there is an answer. It returns how many
// were claimed, and those are delivered; the others are taken again.
func (e *Engine) doubt(ctx context.Context, session uuid.UUID, runs []job.Run, err error) (claimed int) {
	resolved := false
	loop.Loop{
		Name: "claim", Title: "claim", Log: e.Log, OnFailure: e.Observe.Failed, Attrs: []any{"runs", len(runs)},
		Ready:   func() bool { return resolved },
		Backoff: loop.Backoff{Min: doubtPause, Max: doubtMaxPause},
		Once: func(ctx context.Context) (time.Duration, error) {
			// If the session has ended, its runs are rescued if they were claimed.
			if e.Member.Session() != session {
				return 0, loop.ErrDone
			}
			attempts, err := e.claimedBy(ctx, session, runs)
			if err != nil {
				return 0, err
			}
			claimed, resolved = e.settle(runs, attempts), true
			return 0, loop.ErrDone
		},
	}.RunAfter(ctx, err)
	if !resolved {
		e.wheel.postpone(runs)
	}
	return claimed
}

func (e *Engine) claimedBy(ctx context.Context, session uuid.UUID, runs []job.Run) ([]job.Attempt, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyLimit)
	defer cancel()
	return e.Claimer.Claimed(ctx, session, keysOf(runs))
}

// settle delivers those runs that were claimed, and has the others taken again.
func (e *Engine) settle(runs []job.Run, attempts []job.Attempt) (claimed int) {
	for _, a := range attempts {
		e.claimed <- a
	}
	e.stats.claimed.Add(int64(len(attempts)))
	done, left := split(runs, attempts)
	e.wheel.release(done)
	e.wheel.postpone(left)
	return len(attempts)
}

// split tells the runs that have an attempt from those that do not.
func split(runs []job.Run, attempts []job.Attempt) (with, without []job.Run) {
	has := make(map[runKey]bool, len(attempts))
	for _, a := range attempts {
		has[keyOf(a.Key)] = true
	}
	for _, r := range runs {
		if has[keyOf(r.Key)] {
			with = append(with, r)
		} else {
			without = append(without, r)
		}
	}
	return with, without
}
