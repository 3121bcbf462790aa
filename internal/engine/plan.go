package engine

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	planPause      = time.Second // between looks for what is to be planned
	planPartitions = 64          // in one transaction
	planCursors    = 500
)

// planOnce plans what is due within the look-ahead.
func (e *Engine) planOnce(ctx context.Context) (time.Duration, error) {
	owned := e.Member.Owned()
	if len(owned) == 0 || e.Bound.Jump() != 0 {
		return planPause, nil
	}
	now, next, err := e.Planner.NextDue(ctx, owned)
	if err != nil {
		return 0, err
	}
	if len(next) > 0 && now.Sub(e.Bound.Now()).Abs() > clock.MaxJump {
		return planPause, nil // it has just jumped: the next renewal will tell
	}
	var due []int16
	for p, at := range next {
		if !at.After(now.Add(e.LookAhead)) {
			due = append(due, p)
		}
	}
	for len(due) > 0 && ctx.Err() == nil {
		part := due[:min(len(due), planPartitions)]
		planned, err := e.Planner.Plan(ctx, job.PlanParams{Partitions: part, LookAhead: e.LookAhead, Cursors: planCursors})
		if err != nil {
			e.loads.order(part, e.Bound.Now()) // it may have committed all the same
			return 0, err
		}
		if n := len(planned.Broken); n > 0 {
			e.Log.Error("cursors cannot be planned: their jobs do not run", "cursors", n, "first", planned.Broken[0])
		}
		e.wheel.add(planned.Runs)
		e.stats.planned.Add(int64(len(planned.Runs)))
		if !planned.More {
			due = due[len(part):]
		}
	}
	return planPause, nil
}
