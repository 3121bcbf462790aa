package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Gap says what a fixed expression does with readings that never happen.
type Gap string

// Fold says what a fixed expression does with readings that happen twice.
type Fold string

// The values a job may choose from.
const (
	GapShift Gap = "shift"
	GapSkip  Gap = "skip"

	FoldFirst  Fold = "first"
	FoldSecond Fold = "second"
	FoldBoth   Fold = "both"
)

// DST is a job's choice for the days on which its clock is changed.
type DST struct {
	Gap  Gap
	Fold Fold
}

// longestGap is the most that daylight saving or a change of standard time has
// ever set a clock forward. Beyond it the calendar itself was corrected.
const longestGap = 3 * 60 * 60

// Cron is a parsed expression. It remembers which dates match, without a lock:
// goroutines need one each.
type Cron struct {
	second, minute, hour, month []bool
	dom, dow                    []dayTerm
	bothDays                    bool
	elapsed                     bool
	dates                       map[date]bool
}

var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// Parse reads an expression of five or six fields, or a macro.
func Parse(expr string) (*Cron, error) {
	text := strings.TrimSpace(expr)
	if strings.HasPrefix(text, "@") {
		plain, ok := macros[strings.ToLower(text)]
		if !ok {
			return nil, fmt.Errorf("unknown macro %q", text)
		}
		text = plain
	}
	fields := strings.Fields(text)
	if len(fields) == 5 {
		fields = slices.Insert(fields, 0, "0")
	}
	if len(fields) != 6 {
		return nil, fmt.Errorf("%q has %d fields, not 5 or 6", expr, len(fields))
	}
	c := &Cron{
		bothDays: startsWithAny(fields[3], "*?") || startsWithAny(fields[5], "*?"),
		elapsed:  startsWithAny(fields[1], "*") || startsWithAny(fields[2], "*"),
		dates:    map[date]bool{},
	}
	var err [6]error
	c.second, err[0] = secondField.set(fields[0])
	c.minute, err[1] = minuteField.set(fields[1])
	c.hour, err[2] = hourField.set(fields[2])
	c.dom, err[3] = dayTerms(fields[3], domTerm)
	c.month, err[4] = monthField.set(fields[4])
	c.dow, err[5] = dayTerms(fields[5], dowTerm)
	for _, e := range err {
		if e != nil {
			return nil, fmt.Errorf("%q: %w", expr, e)
		}
	}
	return c, nil
}

func startsWithAny(text, chars string) bool {
	return strings.IndexAny(text, chars) == 0
}

// On lists the occurrences after from up to and including to, in order, in UTC.
// The window must lie within the clock's.
func (c *Cron) On(clock *Clock, dst DST, from, to time.Time) []time.Time {
	// Occurrences are whole seconds, so a fraction of the bounds is of no
	// consequence: after 5.5 s is after 5 s, up to 5.5 s is up to 5 s.
	after, until := from.Unix(), to.Unix()
	var found []int64
	for i := range clock.days {
		day := &clock.days[i]
		if day.last <= after-clock.unit || day.first > until || !c.onDate(day.date) {
			continue
		}
		found = c.onDay(found, clock.unit, day, dst.Fold)
	}
	if !c.elapsed && dst.Gap == GapShift {
		for _, gap := range clock.gaps {
			if gap.to-gap.from <= longestGap && c.inGap(gap, clock.unit) {
				found = append(found, gap.at)
			}
		}
	}
	slices.Sort(found)
	var occurrences []time.Time
	for _, at := range slices.Compact(found) {
		if at > after && at <= until {
			occurrences = append(occurrences, time.Unix(at, 0).UTC())
		}
	}
	return occurrences
}

// onDay tries every reading of a matching date.
func (c *Cron) onDay(found []int64, unit int64, day *day, fold Fold) []int64 {
	for i := range day.readings {
		r := &day.readings[i]
		if !c.hour[r.clock/3600] || !c.minute[r.clock/60%60] {
			continue
		}
		if !c.elapsed && !fold.takes(r) {
			continue
		}
		for s := range unit {
			if c.second[(int64(r.clock)+s)%60] {
				found = append(found, r.at+s)
			}
		}
	}
	return found
}

// takes reports whether the option includes this pass of a reading.
func (f Fold) takes(r *reading) bool {
	switch f {
	case FoldFirst:
		return r.pass == 1
	case FoldSecond:
		return r.pass == r.passes
	default:
		return true
	}
}

// inGap tries every reading in the gap.
func (c *Cron) inGap(gap gap, unit int64) bool {
	for wall := gap.from; wall < gap.to; wall += unit {
		n, clock := splitWall(wall)
		if !c.hour[clock/3600] || !c.minute[clock/60%60] || !c.onDate(dateOf(n)) {
			continue
		}
		for s := range unit {
			if c.second[(int64(clock)+s)%60] {
				return true
			}
		}
	}
	return false
}

// onDate applies the month and the two day fields.
func (c *Cron) onDate(d date) bool {
	match, known := c.dates[d]
	if known {
		return match
	}
	dom, dow := anyTerm(c.dom, d), anyTerm(c.dow, d)
	match = dom || dow
	if c.bothDays {
		match = dom && dow
	}
	match = match && c.month[d.month]
	c.dates[d] = match
	return match
}
