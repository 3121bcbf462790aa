package oracle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/oracle"
)

// A checker that has never failed proves nothing: each of these products has one deliberate fault, and the
// comparison must find it.
func TestComparisonCatches(t *testing.T) {
	t.Parallel()
	spring := oracle.Transition{At: instant(t, "2026-03-08T07:00:00Z"), Before: -5 * 3600, After: -4 * 3600}
	autumn := oracle.Transition{At: instant(t, "2026-11-01T06:00:00Z"), Before: -4 * 3600, After: -5 * 3600}
	honest := func(expr string, dst oracle.DST) nextFunc {
		s, err := newSubject(expr, days, "America/New_York", []oracle.DST{dst})
		require.NoError(t, err)
		return s.products[0].next
	}
	const daily = "30 2 * * *"
	const folded = "30 1 * * *"
	next := honest(daily, shiftFirst)
	for name, c := range map[string]struct {
		expr       string
		transition oracle.Transition
		next       nextFunc
		caught     bool
	}{
		"honest in spring":  {daily, spring, next, false},
		"honest in autumn":  {folded, autumn, honest(folded, shiftFirst), false},
		"skips the gap":     {daily, spring, honest(daily, skipFirst), true},
		"second pass":       {folded, autumn, honest(folded, second), true},
		"both passes":       {folded, autumn, honest(folded, both), true},
		"another hour":      {daily, spring, honest("30 4 * * *", shiftFirst), true},
		"elapsed for fixed": {"0,30 1 * * *", autumn, honest("*/30 1 * * *", shiftFirst), true},
		"never later":       {daily, spring, func(after time.Time) (time.Time, error) { return after, nil }, true},
		"error": {
			daily, spring, func(time.Time) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }, true,
		},
		"one second late":   {daily, spring, late(next, time.Second), true},
		"a nanosecond late": {daily, spring, late(next, 1), true},
		"forgets one":       {daily, spring, forgets(next, spring.At), true},
		"confused by a half": {
			daily, spring, onlyFrom(next, func(after time.Time) bool { return after.Nanosecond() != 0 }), true,
		},
		"confused by the day": {daily, spring, onlyFrom(next, spring.At.Equal), true},
	} {
		var total tally
		reports := 0
		comparison := newComparison(t, &total, "America/New_York")
		comparison.errorf = func(string, ...any) { reports++ }
		cron, err := oracle.Parse(c.expr)
		require.NoError(t, err)
		comparison.around(c.transition, []subject{{c.expr, days, cron, []product{{shiftFirst, c.next}}}})
		require.Equal(t, c.caught, reports == 1, name)
		require.EqualValues(t, reports, total.differences.Load(), name)
	}
}

// late delays each answer, and subtracts the delay from the next question so that a chain of answers does not
// drift.
func late(next nextFunc, by time.Duration) nextFunc {
	return func(after time.Time) (time.Time, error) {
		at, err := next(after.Add(-by))
		return at.Add(by), err
	}
}

func forgets(next nextFunc, one time.Time) nextFunc {
	return func(after time.Time) (time.Time, error) {
		at, err := next(after)
		if err == nil && at.Equal(one) {
			return next(at)
		}
		return at, err
	}
}

// onlyFrom loses an occurrence, but only when asked from certain instants.
func onlyFrom(next nextFunc, from func(time.Time) bool) nextFunc {
	return func(after time.Time) (time.Time, error) {
		at, err := next(after)
		if err == nil && from(after) {
			return next(at)
		}
		return at, err
	}
}
