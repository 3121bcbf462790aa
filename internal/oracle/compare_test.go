package oracle_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/oracle"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// maxReported limits the differences that are printed; all are counted.
const maxReported = 20

// tally is what a comparison has done, summed over parallel tests.
type tally struct {
	transitions, sequences, occurrences, starts, differences atomic.Int64
}

// subject is one expression in one zone, on both sides.
type subject struct {
	expr     string
	reach    time.Duration
	cron     *oracle.Cron
	products []product
}

// product is the schedule under test with one choice of options.
type product struct {
	dst  oracle.DST
	next nextFunc
}

type nextFunc func(after time.Time) (time.Time, error)

func newSubject(expr string, reach time.Duration, zone string, options []oracle.DST) (subject, error) {
	cron, err := oracle.Parse(expr)
	if err != nil {
		return subject{}, err
	}
	s := subject{expr: expr, reach: reach, cron: cron}
	for _, dst := range options {
		spec := schedule.Spec{Cron: expr, Timezone: zone}
		// The product has its own types for these, with the same values.
		setText(&spec.DST.Gap, string(dst.Gap))
		setText(&spec.DST.Fold, string(dst.Fold))
		made, err := schedule.New(spec, "")
		if err != nil {
			return subject{}, err
		}
		s.products = append(s.products, product{dst, made.Next})
	}
	return s, nil
}

func setText[T ~string](field *T, text string) { *field = T(text) }

// optionsFor returns the options to compare: all for a fixed expression, and one for an elapsed expression,
// which must ignore them. turn chooses which one.
func optionsFor(expr string, turn int) []oracle.DST {
	all := oracle.AllDST()
	if cron, err := oracle.Parse(expr); err == nil && cron.Elapsed() {
		turn %= len(all)
		return all[turn : turn+1]
	}
	return all
}

// window is after from, up to and including to.
type window struct{ from, to time.Time }

// comparison compares subjects in one zone around its transitions.
type comparison struct {
	tally  *tally
	zone   string
	loc    *time.Location
	errorf func(format string, args ...any)
	fail   func()
}

func newComparison(t *testing.T, tally *tally, zone string) *comparison {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	return &comparison{tally: tally, zone: zone, loc: loc, errorf: t.Errorf, fail: t.Fail}
}

// around compares every subject around one transition, on one walk of the clock.
func (c *comparison) around(transition oracle.Transition, subjects []subject) {
	reach := time.Duration(0)
	for _, s := range subjects {
		reach = max(reach, s.reach)
	}
	clock := oracle.NewClock(c.loc, transition.At.Add(-reach), transition.At.Add(reach))
	starts := startsAround(transition, c.loc)
	for _, s := range subjects {
		in := window{transition.At.Add(-s.reach), transition.At.Add(s.reach)}
		for _, p := range s.products {
			want := s.cron.On(clock, p.dst, in.from, in.to)
			c.tally.sequences.Add(1)
			c.tally.occurrences.Add(int64(len(want)))
			got, fault := chain(p.next, in, len(want)+2)
			if fault == "" {
				fault = firstDifference(want, got, c.loc)
			}
			if fault == "" {
				fault = c.compareStarts(p.next, in, starts, want)
			}
			if fault != "" {
				c.report(transition, s.expr, p.dst, fault)
			}
		}
	}
}

// chain collects what next yields from one occurrence to the following.
func chain(next nextFunc, in window, limit int) (got []time.Time, fault string) {
	for at := in.from; len(got) < limit; {
		following, err := next(at)
		if errors.Is(err, schedule.ErrNoMore) {
			break
		}
		if err != nil {
			return nil, fmt.Sprintf("Next(%s): %v", stamp(at), err)
		}
		if !following.After(at) {
			return nil, fmt.Sprintf("Next(%s) = %s is not later", stamp(at), stamp(following))
		}
		if following.After(in.to) {
			break
		}
		got = append(got, following)
		at = following
	}
	return got, ""
}

// startsAround returns awkward instants to ask from: at, just before and just after the transition, within
// both passes of a fold, the instants that package time makes of a reading in the gap, and fractions of a
// second; some in UTC, some in the zone.
func startsAround(transition oracle.Transition, loc *time.Location) []time.Time {
	jump := time.Duration(max(transition.After-transition.Before, transition.Before-transition.After)) * time.Second
	var starts []time.Time
	for i, shift := range []time.Duration{
		-jump - time.Second, -jump, -jump / 2, -time.Second, -time.Nanosecond, 0, time.Nanosecond, time.Second / 2,
		time.Second, jump/2 + 123456789, jump - time.Second, jump, jump + time.Second,
	} {
		at := transition.At.Add(shift)
		if i%2 == 0 {
			at = at.In(loc)
		}
		starts = append(starts, at)
	}
	middle := transition.At.Add(time.Duration(transition.Before+transition.After) / 2 * time.Second)
	return append(starts, time.Date(middle.Year(), middle.Month(), middle.Day(),
		middle.Hour(), middle.Minute(), middle.Second(), 0, loc))
}

// compareStarts asks for the next occurrence from each start within the window.
func (c *comparison) compareStarts(next nextFunc, in window, starts, want []time.Time) (fault string) {
	for _, start := range starts {
		if start.Before(in.from) || start.After(in.to) {
			continue
		}
		c.tally.starts.Add(1)
		got, err := next(start)
		none := errors.Is(err, schedule.ErrNoMore)
		if err != nil && !none {
			return fmt.Sprintf("Next(%s): %v", stamp(start), err)
		}
		if !none && !got.After(start) {
			return fmt.Sprintf("Next(%s) = %s is not later", stamp(start), stamp(got))
		}
		later := slices.IndexFunc(want, func(at time.Time) bool { return at.After(start) })
		switch {
		case later < 0 && !none && !got.After(in.to):
			return fmt.Sprintf("Next(%s) = %s, expected nothing up to %s", stamp(start), stamp(got), stamp(in.to))
		case later >= 0 && (none || !got.Equal(want[later])):
			return fmt.Sprintf("Next(%s) = %s, expected %s", stamp(start), stamp(got), stamp(want[later]))
		}
	}
	return ""
}

// firstDifference shows two sequences around the first place they differ.
func firstDifference(want, got []time.Time, loc *time.Location) string {
	i := 0
	for i < len(want) && i < len(got) && want[i].Equal(got[i]) {
		i++
	}
	if i == len(want) && i == len(got) {
		return ""
	}
	return fmt.Sprintf("occurrence %d of %d\n  expected %s\n  got      %s", i, len(want), excerpt(want, i, loc),
		excerpt(got, i, loc))
}

func excerpt(sequence []time.Time, i int, loc *time.Location) string {
	var parts []string
	for _, at := range sequence[max(0, min(i-2, len(sequence))):min(i+3, len(sequence))] {
		parts = append(parts, fmt.Sprintf("%s (%s)", stamp(at), at.In(loc).Format("Mon 15:04:05 -07")))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// report prints a difference. After the first few, it only counts and names the failing zones: one mistake
// shows at thousands of transitions.
func (c *comparison) report(transition oracle.Transition, expr string, dst oracle.DST, fault string) {
	if c.tally.differences.Add(1) > maxReported {
		c.fail()
		return
	}
	c.errorf("zone %s, expression %q, gap %s, fold %s, transition %s (%+d s → %+d s): %s",
		c.zone, expr, dst.Gap, dst.Fold, stamp(transition.At), transition.Before, transition.After, fault)
}
