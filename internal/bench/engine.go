package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/bench/scratch"
)

const (
	engineSchedules = 60 // like hourly jobs, one for each minute
	// engineBack is how long ago the backlog was due: longer than job.MissedGrace.
	engineBack = time.Minute
)

// Engine measures how fast nodes work through a backlog, compared with the bare SQL.
func Engine(ctx context.Context, o Options) (*Result, error) {
	if o.Rounds < 1 {
		return nil, fmt.Errorf("--rounds %d: use 1 or more", o.Rounds)
	}
	o.Target = Noop
	return measure(ctx, o, "engine", (*bench).engine)
}

// rates sums rounds.
type rates struct{ runs, seconds float64 }

func (r rates) perSecond() float64 { return r.runs / r.seconds }

func (b *bench) engine(ctx context.Context, r *Result) error {
	schedules := min(engineSchedules, b.Jobs)
	if err := b.load(ctx, schedules); err != nil {
		return err
	}
	now, err := b.scratch.Now(ctx)
	if err != nil {
		return err
	}
	backlog := newBacklog(now, schedules)
	var bare, engine rates
	var u usage
	var all []start
	for i := range b.Rounds {
		// The two alternate, so that a machine that slows down affects both.
		if err := b.bareRound(ctx, backlog, i, &bare); err != nil {
			return err
		}
		if err := b.engineRound(ctx, r, backlog, &engine, &u); err != nil {
			return err
		}
		r.starts = b.starts.take() // the curves show the last round
		all = append(all, r.starts...)
	}
	per, ratio := bare.perSecond(), engine.perSecond()/bare.perSecond()
	r.BareRunsPerSecond, r.RatioToBare = &per, &ratio
	r.RunsPerSecond, r.DrainSeconds = engine.perSecond(), engine.seconds/float64(b.Rounds)
	r.Lateness = latenessOf(all)
	if len(r.starts) > 0 {
		r.origin = slices.MinFunc(r.starts, func(a, b start) int { return a.at.Compare(b.at) }).at
	}
	b.report(u, r)
	return nil
}

// backlog is schedules whose last occurrence is not planned yet, and whose next is a day away.
type backlog struct {
	cursors  []scratch.Cursor
	expected []scratch.Expected
	until    time.Time // all occurrences are due before
}

func newBacklog(now time.Time, schedules int) backlog {
	l := backlog{until: now.Add(-engineBack).Truncate(time.Second).Add(time.Second)}
	for i := range schedules {
		due := l.until.Add(-time.Duration(i+1) * time.Second)
		l.cursors = append(l.cursors, scratch.Cursor{Schedule: daily(due), Missed: missed, Next: due})
		l.expected = append(l.expected, scratch.Expected{Schedule: i, DueAt: due})
	}
	return l
}

// engineRound works through the backlog with nodes.
func (b *bench) engineRound(ctx context.Context, r *Result, l backlog, sum *rates, u *usage) error {
	if err := b.scratch.Rewind(ctx); err != nil {
		return err
	}
	if err := b.startNodes(ctx); err != nil {
		return err
	}
	if err := b.scratch.LoadCursors(ctx, l.cursors); err != nil {
		return err
	}
	begin, err := b.read(ctx)
	if err != nil {
		return err
	}
	if err := b.drain(ctx, l.until, b.Jobs); err != nil {
		return err
	}
	end, err := b.read(ctx)
	if err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	last, err := b.scratch.Counters(ctx)
	if err != nil {
		return err
	}
	u.addCPU(begin, end)
	u.addCounters(begin.counters, last)
	before := r.Runs
	if err := b.count(ctx, r, l.expected); err != nil {
		return err
	}
	return b.addRound(ctx, l, r.Runs-before, sum)
}

// addRound takes the time of a round from the ledger: from the transaction that planned the first runs, which could
// start immediately, to the one that ended the last.
func (b *bench) addRound(ctx context.Context, l backlog, runs int64, sum *rates) error {
	first, last, err := b.scratch.Span(ctx, time.Unix(0, 0), l.until)
	if err != nil {
		return err
	}
	sum.runs += float64(runs)
	sum.seconds += last.Sub(first).Seconds()
	return nil
}
