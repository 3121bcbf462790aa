package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/bench/scratch"
	"github.com/belfry-dev/belfry/internal/schedule"
)

const (
	// When so many quarters of the look-ahead are planned, and the first seconds
	// have run, what remains is the everyday.
	steadyQuarters = 3
	steadyFirst    = 5 * time.Second
	// cursorRate is how many cursors are surely loaded in a second.
	cursorRate = 10_000
)

// Steady measures many jobs of which some are due each second.
func Steady(ctx context.Context, o Options) (*Result, error) {
	if err := o.checkSteady(); err != nil {
		return nil, err
	}
	return measure(ctx, o, "steady", (*bench).steady)
}

func (b *bench) steady(ctx context.Context, r *Result) error {
	l := newLanes(b.Options)
	rate, seconds := l.rate(b.Jobs), b.Duration.Truncate(time.Second).Seconds()
	r.Rate, r.DurationSeconds = &rate, &seconds
	if err := b.load(ctx, l.schedules); err != nil {
		return err
	}
	if err := b.startNodes(ctx); err != nil {
		return err
	}
	now, err := b.scratch.Now(ctx)
	if err != nil {
		return err
	}
	cursors := min(b.Jobs, l.schedules*256)
	if err := b.scratch.LoadCursors(ctx, l.cursors(now.Add(steadyFirst+time.Duration(cursors)*time.Second/cursorRate))); err != nil {
		return err
	}
	from, err := b.warmUp(ctx, rate)
	if err != nil {
		return err
	}
	to := from.Add(b.Duration.Truncate(time.Second))
	if err := b.waitUntil(ctx, "warming up", from); err != nil {
		return err
	}
	begin, err := b.read(ctx)
	if err != nil {
		return err
	}
	if err := b.waitUntil(ctx, "measuring", to); err != nil {
		return err
	}
	end, err := b.read(ctx)
	if err != nil {
		return err
	}
	var u usage
	u.addCPU(begin, end)
	u.addCounters(begin.counters, end.counters)
	if err := b.drain(ctx, to, b.starts.count()); err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	return b.finishSteady(ctx, r, l.expected(from, to), u)
}

func (b *bench) finishSteady(ctx context.Context, r *Result, expected []scratch.Expected, u usage) error {
	if len(expected) == 0 {
		return fmt.Errorf("nothing was due in %s; use a longer --duration or more --schedules", b.Duration)
	}
	if err := b.count(ctx, r, expected); err != nil {
		return err
	}
	byTime := func(a, b scratch.Expected) int { return a.DueAt.Compare(b.DueAt) }
	first, last := slices.MinFunc(expected, byTime).DueAt, slices.MaxFunc(expected, byTime).DueAt
	_, ended, err := b.scratch.Span(ctx, first, last.Add(time.Second))
	if err != nil {
		return err
	}
	r.RunsPerSecond = float64(r.Runs) / *r.DurationSeconds
	r.DrainSeconds = ended.Sub(last).Seconds()
	r.starts = slices.DeleteFunc(b.starts.take(), func(s start) bool {
		// Due times are whole seconds, so the clocks' small difference can be rounded away.
		due := s.at.Add(b.offset - s.late).Round(time.Second)
		return due.Before(first) || due.After(last)
	})
	r.origin = first.Add(-b.offset)
	r.Lateness = latenessOf(r.starts)
	b.report(u, r)
	return nil
}

// warmUp waits until planning is ahead and the first seconds have run, and
// returns when measuring begins.
func (b *bench) warmUp(ctx context.Context, rate float64) (from time.Time, err error) {
	first := int(rate * steadyFirst.Seconds())
	wanted := b.Node.LookAhead * steadyQuarters / 4
	s := newStep(b.Log, "planning ahead", int(wanted.Seconds()))
	defer s.end()
	err = b.poll(ctx, func() (bool, error) {
		until, now, err := b.scratch.Planned(ctx)
		ahead := until.Sub(now)
		s.set(int(ahead.Seconds()))
		from = now.UTC().Truncate(time.Second).Add(2 * time.Second)
		return ahead >= wanted && b.starts.count() >= first, err
	})
	return from, err
}

// lanes are the schedules of steady: each job is due once in a period, and each
// schedule at one second of it.
type lanes struct {
	period    int // seconds
	schedules int
}

func newLanes(o Options) lanes {
	l := lanes{period: (o.Jobs + o.Rate/2) / o.Rate, schedules: o.Schedules}
	if l.schedules == 0 {
		l.schedules = min(l.period, maxSchedules)
	}
	return l
}

// rate is what whole seconds make of the one that was asked for.
func (l lanes) rate(jobs int) float64 { return float64(jobs) / float64(l.period) }

// phase is the second of the period at which a schedule is due.
func (l lanes) phase(i int) int { return i * l.period / l.schedules }

// first is the first due time of a schedule that is not before a time.
func (l lanes) first(i int, from time.Time) time.Time {
	from = from.Add(time.Second - 1).Truncate(time.Second)
	wait := (int64(l.phase(i)) - from.Unix()) % int64(l.period)
	if wait < 0 {
		wait += int64(l.period)
	}
	return from.Add(time.Duration(wait) * time.Second)
}

// cursors are the schedules, with nothing due before a time.
func (l lanes) cursors(from time.Time) []scratch.Cursor {
	out := make([]scratch.Cursor, l.schedules)
	twin := int32(0)
	for i := range out {
		spec := schedule.Spec{Every: fmt.Sprintf("%ds", l.period), Anchor: time.Unix(int64(l.phase(i)), 0).UTC().Format(time.RFC3339)}
		// Schedules of the same second differ in a setting that changes nothing here.
		if i > 0 && l.phase(i) == l.phase(i-1) {
			twin++
		} else {
			twin = 0
		}
		m := missed
		m.Max = 100 + twin
		out[i] = scratch.Cursor{Schedule: spec, Missed: m, Next: l.first(i, from)}
	}
	return out
}

// expected are the due times from a time up to another.
func (l lanes) expected(from, to time.Time) (out []scratch.Expected) {
	for i := range l.schedules {
		for due := l.first(i, from); due.Before(to); due = due.Add(time.Duration(l.period) * time.Second) {
			out = append(out, scratch.Expected{Schedule: i, DueAt: due})
		}
	}
	return out
}
