package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/telemetry"
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
	var trouble telemetry.Trouble
	for pause := doubtPause; ; pause = min(2*pause, doubtMaxPause) {
		e.Observe.Failed("claim")
		trouble.Failed(e.Log, "claim failed", err, "runs", len(runs), "again_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		// Those of a session that is over, as this one is when the node has
		// stopped, are rescued if they were claimed.
		if ctx.Err() != nil || e.Member.Session() != session {
			e.wheel.postpone(runs)
			return 0
		}
		var attempts []job.Attempt
		if attempts, err = e.claimedBy(ctx, session, runs); err == nil {
			return e.settle(runs, attempts)
		}
	}
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
