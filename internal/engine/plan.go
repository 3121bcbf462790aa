package engine

import (
	"context"
	"time"

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
	if len(owned) == 0 {
		e.stats.broken.Store(0) // whoever owns them counts them
		return planPause, nil
	}
	now, next, err := e.Planner.NextDue(ctx, owned)
	if err != nil {
		return 0, err
	}
	var due []int16
	for p, at := range next {
		if !at.After(now.Add(e.LookAhead)) {
			due = append(due, p)
		}
	}
	var broken []error
	for len(due) > 0 && ctx.Err() == nil {
		part := due[:min(len(due), planPartitions)]
		planned, err := e.Planner.Plan(ctx, job.PlanOrder{Partitions: part, LookAhead: e.LookAhead, Cursors: planCursors})
		if err != nil {
			e.loads.order(part, e.Bound.Now()) // it may have committed all the same
			return 0, err
		}
		e.wheel.add(planned.Runs)
		e.stats.planned.Add(int64(len(planned.Runs)))
		if !planned.More || planned.Cursors == len(planned.Broken) {
			due = due[len(part):]
			broken = append(broken, planned.Broken...) // those of the last look: each look meets them again
		}
	}
	e.report(broken)
	return planPause, nil
}
