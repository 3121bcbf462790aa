package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/postgres"
)

const (
	engineSchedules = 60 // as of hourly jobs, one for each minute
	// engineBack is how long ago the backlog was due: longer than what counts as merely late.
	engineBack = time.Minute
)

// Engine measures how fast a backlog is worked off, and the bare SQL of it.
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
	for i := range b.Rounds {
		// In turns, so that a machine that slows down does so for both.
		if err := b.bareRound(ctx, backlog, i, &bare); err != nil {
			return err
		}
		if err := b.engineRound(ctx, r, backlog, &engine, &u); err != nil {
			return err
		}
	}
	per, ratio := bare.perSecond(), engine.perSecond()/bare.perSecond()
	r.BareRunsPerSecond, r.RatioToBare = &per, &ratio
	r.RunsPerSecond, r.DrainSeconds = engine.perSecond(), engine.seconds/float64(b.Rounds)
	r.Lateness = latenessOf(r.starts)
	u.fill(r)
	return nil
}

// backlog is schedules whose last occurrence nobody has planned, and whose next
// is a day away.
type backlog struct {
	cursors  []postgres.BenchCursor
	expected []postgres.Expected
	until    time.Time // all is due before
}

func newBacklog(now time.Time, schedules int) backlog {
	l := backlog{until: now.Add(-engineBack).Truncate(time.Second).Add(time.Second)}
	for i := range schedules {
		due := l.until.Add(-time.Duration(i+1) * time.Second)
		l.cursors = append(l.cursors, postgres.BenchCursor{Schedule: daily(due), Missed: missed, Next: due})
		l.expected = append(l.expected, postgres.Expected{Schedule: i, DueAt: due})
	}
	return l
}

// engineRound works the backlog off with nodes.
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
	if err := b.stopNodes(); err != nil {
		return err
	}
	last, err := b.scratch.Counters(ctx)
	if err != nil {
		return err
	}
	u.addCPU(begin, end)
	u.addCounters(begin.counters, last)
	t, err := b.count(ctx, l.expected)
	if err != nil {
		return err
	}
	r.Runs, r.Lost, r.Duplicates = r.Runs+t.runs, r.Lost+t.lost, r.Duplicates+t.duplicates
	r.starts = append(r.starts, b.starts.take()...)
	return b.addRound(ctx, l, t.runs, sum)
}

// addRound takes the time of a round from the ledger: from the transaction that
// planned the first runs, which let them start at once, to the one that ended
// the last.
func (b *bench) addRound(ctx context.Context, l backlog, runs int64, sum *rates) error {
	first, last, err := b.scratch.Span(ctx, time.Unix(0, 0), l.until)
	if err != nil {
		return err
	}
	sum.runs += float64(runs)
	sum.seconds += last.Sub(first).Seconds()
	return nil
}
