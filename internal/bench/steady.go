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
	// The warm-up is over when this many quarters of the look-ahead are planned and the first seconds have run.
	steadyQuarters = 3
	steadyFirst    = 5 * time.Second
	// cursorRate is how many cursors can be loaded per second, by a safe estimate.
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
	s := newSteadySchedules(b.Options)
	rate, seconds := s.rate(b.Jobs), b.Duration.Truncate(time.Second).Seconds()
	r.Rate, r.DurationSeconds = &rate, &seconds
	if err := b.load(ctx, s.count); err != nil {
		return err
	}
	if err := b.startNodes(ctx); err != nil {
		return err
	}
	now, err := b.scratch.Now(ctx)
	if err != nil {
		return err
	}
	cursors := min(b.Jobs, s.count*256)
	loading := time.Duration(cursors) * time.Second / cursorRate
	if err := b.scratch.LoadCursors(ctx, s.cursors(now.Add(steadyFirst+loading))); err != nil {
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
	return b.finishSteady(ctx, r, s.expected(from, to), u)
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
		// Due times are whole seconds, so rounding removes the small difference between the clocks.
		due := s.at.Add(b.offset - s.late).Round(time.Second)
		return due.Before(first) || due.After(last)
	})
	r.origin = first.Add(-b.offset)
	r.Lateness = latenessOf(r.starts)
	b.report(u, r)
	return nil
}

// warmUp waits until planning is ahead and the first seconds have run. It returns when the measurement begins.
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

// steadySchedules spreads schedules over a period: each schedule is due at one second of it, so each job is due once
// per period.
type steadySchedules struct {
	period int // seconds
	count  int // of schedules
}

func newSteadySchedules(o Options) steadySchedules {
	s := steadySchedules{period: (o.Jobs + o.Rate/2) / o.Rate, count: o.Schedules}
	if s.count == 0 {
		s.count = min(s.period, maxSchedules)
	}
	return s
}

// rate is the actual rate: periods are whole seconds, so it may differ from the requested one.
func (s steadySchedules) rate(jobs int) float64 { return float64(jobs) / float64(s.period) }

// phase is the second of the period at which a schedule is due.
func (s steadySchedules) phase(i int) int { return i * s.period / s.count }

// first is the first due time of a schedule from a time on.
func (s steadySchedules) first(i int, from time.Time) time.Time {
	from = from.Add(time.Second - 1).Truncate(time.Second)
	wait := (int64(s.phase(i)) - from.Unix()) % int64(s.period)
	if wait < 0 {
		wait += int64(s.period)
	}
	return from.Add(time.Duration(wait) * time.Second)
}

// cursors are the cursors of the schedules. Nothing is due before a time.
func (s steadySchedules) cursors(from time.Time) []scratch.Cursor {
	out := make([]scratch.Cursor, s.count)
	twin := int32(0)
	for i := range out {
		anchor := time.Unix(int64(s.phase(i)), 0).UTC().Format(time.RFC3339)
		spec := schedule.Spec{Every: fmt.Sprintf("%ds", s.period), Anchor: anchor}
		// Schedules of the same second must differ, so they get a setting that has no effect here.
		if i > 0 && s.phase(i) == s.phase(i-1) {
			twin++
		} else {
			twin = 0
		}
		m := missed
		m.Max = 100 + twin
		out[i] = scratch.Cursor{Schedule: spec, Missed: m, Next: s.first(i, from)}
	}
	return out
}

// expected are the due times from a time and before another.
func (s steadySchedules) expected(from, to time.Time) (out []scratch.Expected) {
	for i := range s.count {
		for due := s.first(i, from); due.Before(to); due = due.Add(time.Duration(s.period) * time.Second) {
			out = append(out, scratch.Expected{Schedule: i, DueAt: due})
		}
	}
	return out
}
