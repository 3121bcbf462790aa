package oracle

import "time"

// AllDST lists every combination.
func AllDST() []DST {
	var all []DST
	for _, gap := range []Gap{GapShift, GapSkip} {
		for _, fold := range []Fold{FoldFirst, FoldSecond, FoldBoth} {
			all = append(all, DST{gap, fold})
		}
	}
	return all
}

// Elapsed reports whether the expression follows elapsed time, so that the DST
// options have no effect on it.
func (c *Cron) Elapsed() bool { return c.elapsed }

// OnDate reports whether the expression occurs on a date of the calendar, in a
// zone whose clock is never changed.
func (c *Cron) OnDate(year int, month time.Month, day int) bool {
	return c.onDate(date{year, month, day})
}

// Between is [Cron.On] with a clock of its own.
func (c *Cron) Between(loc *time.Location, dst DST, from, to time.Time) []time.Time {
	return c.On(NewClock(loc, from, to), dst, from, to)
}
