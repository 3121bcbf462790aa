package engine

import (
	"context"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/share"
)

// Planner is the store as plan and sweep use it.
type Planner interface {
	Plan(ctx context.Context, in job.PlanParams) (job.Planned, error)
	// NextDue returns when the partitions have to be planned, and those that need CatchUp before.
	NextDue(ctx context.Context, partitions []int16) (
		now time.Time, next map[int16]time.Time, missed []int16, err error)
	// CatchUp decides about planned runs that were missed. Until then they do not start.
	CatchUp(ctx context.Context, in job.CatchUpParams) (job.CatchUpResult, error)
	Pending(ctx context.Context, partitions []int16, until time.Time) ([]job.Run, error)
	Sweep(ctx context.Context, in job.SweepParams) ([]job.Run, error)
}

const (
	planPause      = time.Second
	planPartitions = 64 // in one transaction
	planCursors    = 500
)

// planOnce plans what is due within the look-ahead. It leaves out late cursors of namespaces that have their share of the
// wheel: more of their runs would only cost memory, and start no earlier.
func (e *Engine) planOnce(ctx context.Context) (time.Duration, error) {
	e.reportOutage(outagePause, outageLimit)
	owned := e.Member.Owned()
	if len(owned) == 0 {
		return planPause, nil
	}
	now, next, missed, err := e.Planner.NextDue(ctx, owned)
	if err != nil {
		return 0, err
	}
	if len(missed) > 0 { // for example after a doubt about the clock: the owner has not changed
		e.loads.add(missed, e.Bound.Now())
	}
	if len(next) > 0 && now.Sub(e.Bound.Now()).Abs() > clock.MaxJump {
		return planPause, nil // the database clock has just jumped; the next renewal decides
	}
	var due []int16
	for p, at := range next {
		if !at.After(now.Add(e.LookAhead)) {
			due = append(due, p)
		}
	}
	full := share.Over(e.wheel.Upcoming(), e.MaxUpcoming)
	more := false
	for part := range slices.Chunk(due, planPartitions) {
		planned, err := e.Planner.Plan(ctx, job.PlanParams{
			Session: e.Member.Session(), Partitions: part, LookAhead: e.LookAhead, Cursors: planCursors, Full: full,
		})
		if err != nil {
			e.loads.add(part, e.Bound.Now()) // the plan may have committed nevertheless
			return 0, err
		}
		if n := len(planned.Broken); n > 0 {
			e.Log.Error("cursors cannot be planned: their jobs do not run", "cursors", n, "first", planned.Broken[0])
		}
		e.add(ctx, planned.Runs)
		e.stats.planned.Add(int64(len(planned.Runs)))
		e.noteOutage(planned.Missed)
		more = more || planned.More
	}
	if more { // in a round of its own: a backlog of some partitions must not delay the others
		return 0, nil
	}
	return planPause, nil
}
