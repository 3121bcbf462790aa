package bench

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/bench/scratch"
	"github.com/belfry-dev/belfry/internal/schedule"
)

const (
	// The jobs are due after hotWaitMin plus the time that planning takes at hotPlanRate, but within the look-ahead.
	hotWaitMin  = 5 * time.Second
	hotPlanRate = 10_000 // runs per second
	// Claims begin 250 ms before runs are due.
	hotClaim = 300 * time.Millisecond
)

// HotSecond measures jobs that are all due at one instant.
func HotSecond(ctx context.Context, o Options) (*Result, error) {
	return measure(ctx, o, "hot-second", (*bench).hotSecond)
}

func (b *bench) hotSecond(ctx context.Context, r *Result) error {
	if err := b.load(ctx, 1); err != nil {
		return err
	}
	if err := b.startNodes(ctx); err != nil {
		return err
	}
	now, err := b.scratch.Now(ctx)
	if err != nil {
		return err
	}
	wait := min(hotWaitMin+time.Duration(b.Jobs)*time.Second/hotPlanRate, b.Node.LookAhead)
	due := now.Add(wait).Truncate(time.Second)
	cursors := []scratch.Cursor{{Schedule: daily(due), Missed: missed, Next: due}}
	if err := b.scratch.LoadCursors(ctx, cursors); err != nil {
		return err
	}
	planning, err := b.read(ctx)
	if err != nil {
		return err
	}
	if err := b.waitUntil(ctx, "waiting until they are due", due.Add(-hotClaim)); err != nil {
		return err
	}
	begin, err := b.read(ctx)
	if err != nil {
		return err
	}
	if err := b.drain(ctx, due.Add(time.Second), b.Jobs); err != nil {
		return err
	}
	end, err := b.read(ctx)
	if err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	last, err := b.scratch.Counters(ctx) // complete, because the connections of the nodes have ended
	if err != nil {
		return err
	}
	var u usage
	u.addCPU(begin, end)
	u.addCounters(planning.counters, last)
	return b.finishHot(ctx, r, due, u)
}

func (b *bench) finishHot(ctx context.Context, r *Result, due time.Time, u usage) error {
	if err := b.count(ctx, r, []scratch.Expected{{Schedule: 0, DueAt: due}}); err != nil {
		return err
	}
	_, ended, err := b.scratch.Span(ctx, due, due.Add(time.Second))
	if err != nil {
		return err
	}
	r.DrainSeconds = ended.Sub(due).Seconds()
	r.RunsPerSecond = float64(r.Runs) / r.DrainSeconds
	r.starts, r.origin = b.starts.take(), due.Add(-b.offset)
	r.Lateness = latenessOf(r.starts)
	b.report(u, r)
	return nil
}

// daily is a schedule with one occurrence each day, one of them at a time.
func daily(at time.Time) schedule.Spec {
	return schedule.Spec{Every: "1d", Anchor: at.UTC().Format(time.RFC3339)}
}
