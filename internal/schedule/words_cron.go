package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

const (
	sixty      = 1<<60 - 1 // all seconds, or all minutes
	allHours   = 1<<24 - 1
	allDays    = 1<<32 - 2
	allMonths  = 1<<13 - 2
	allWeek    = 1<<7 - 1
	listedTime = 4 // times of day that the words list; more become a pattern
	listedStep = 5 // values in equal steps that are written as a range with a step
)

// words describes the expression by its sets, so that equal patterns have equal words. For elapsed see zoned.words.
// wrap allows ranges of hours that cross midnight, if the expression matches every day.
func (c *cron) words(elapsed, wrap bool) (string, bool) {
	anyDay := c.anyDay()
	t := timeWords{clockSet{c.sec, c.min, c.hour}, elapsed, wrap && anyDay && c.month == allMonths}
	text, listed, means := t.words()
	day := c.dayWords(anyDay)
	if listed && day == "" {
		day = " every day"
		if c.month != allMonths {
			day += " in " + monthWords(c.month)
		}
	} else if day == "" && c.month != allMonths {
		day = " in " + monthWords(c.month)
	}
	return text + day, means
}

// anyDay reports whether the day fields match every day.
func (c *cron) anyDay() bool {
	anyDom, anyDow := c.dom&allDays == allDays, c.dow == allWeek
	if c.either {
		return anyDom || anyDow
	}
	return anyDom && anyDow
}

// dayWords says on which days of which months, or nothing if it is every day.
func (c *cron) dayWords(anyDay bool) string {
	if anyDay {
		return ""
	}
	of, in := " of the month", ""
	if c.month != allMonths {
		of, in = " of "+monthWords(c.month), " in "+monthWords(c.month)
	}
	anyDom, anyDow := c.dom&allDays == allDays, c.dow == allWeek
	week, numbered := c.dowWords()
	if numbered {
		week += of
	} else {
		week += in
	}
	switch {
	case anyDow:
		return " on " + c.domWords(of)
	case anyDom && isRange(c.dow) && !numbered:
		return ", " + week
	case anyDom:
		return " on " + week
	case c.either:
		return " on " + c.domWords(of) + ", and on " + week
	default:
		return " on " + c.domWords(of) + ", only if it is " + week
	}
}

// domWords lists the days of the month.
func (c *cron) domWords(of string) string {
	plain := c.lastMinus == 0 && c.nearest == 0 && !c.lastWork
	if plain && bits.OnesCount32(c.dom) == 1 && bits.OnesCount32(c.month) == 1 {
		return fmt.Sprintf("%d %s", bits.TrailingZeros32(c.dom), time.Month(bits.TrailingZeros32(c.month)))
	}
	var items []string
	if c.dom != 0 {
		items = append(items, plural("day", uint64(c.dom)))
	}
	for x := c.nearest; x != 0; x &= x - 1 {
		items = append(items, fmt.Sprintf("the weekday nearest to day %d", bits.TrailingZeros32(x)))
	}
	for x := c.lastMinus; x != 0; x &= x - 1 {
		items = append(items, "the "+position(-1-bits.TrailingZeros32(x))+" day")
	}
	if c.lastWork {
		items = append(items, "the last weekday")
	}
	return listWords(items) + of
}

// dowWords lists the days of the week. numbered reports whether some are the first, second or last in a month.
func (c *cron) dowWords() (text string, numbered bool) {
	var items []string
	for n := 1; n <= 6; n++ {
		which, set := "last", c.nth[0]
		if n < 6 {
			which, set = ordinals[n], c.nth[n]
		}
		for _, day := range weekdayNames(set &^ c.dow) {
			items = append(items, "the "+which+" "+day)
		}
	}
	if numbered = len(items) > 0; c.dow != 0 {
		items = append([]string{weekdayWords(c.dow)}, items...)
	}
	return listWords(items), numbered
}

func weekdayNames(set uint8) []string {
	var names []string
	for d := 1; d <= 7; d++ { // weeks begin on Monday
		if set&(1<<(d%7)) != 0 {
			names = append(names, time.Weekday(d%7).String())
		}
	}
	return names
}

// isRange reports whether three to six weekdays follow each other.
func isRange(set uint8) bool {
	n := bits.OnesCount8(set)
	_, ok := cyclic(uint64(set), 7)
	return ok && n >= 3 && n < 7
}

// weekdayWords lists days of the week: "Monday to Friday", "Tuesday and Thursday".
func weekdayWords(set uint8) string {
	if isRange(set) {
		first, _ := cyclic(uint64(set), 7)
		last := (first + bits.OnesCount8(set) - 1) % 7
		return time.Weekday(first).String() + " to " + time.Weekday(last).String()
	}
	return listWords(weekdayNames(set))
}

// monthWords lists months: "October to March", "January and July".
func monthWords(set uint32) string {
	n := bits.OnesCount32(set)
	if first, ok := cyclic(uint64(set>>1), 12); ok && n >= 3 && n < 12 {
		return time.Month(first+1).String() + " to " + time.Month((first+n-1)%12+1).String()
	}
	var names []string
	for x := set; x != 0; x &= x - 1 {
		names = append(names, time.Month(bits.TrailingZeros32(x)).String())
	}
	return listWords(names)
}

// cyclic reports whether the values of a set follow each other in a cycle of n, and the first of them.
func cyclic(set uint64, n int) (first int, ok bool) {
	starts := 0
	for v := range n {
		if before := (v + n - 1) % n; set&(1<<v) != 0 && set&(1<<before) == 0 {
			first = v
			starts++
		}
	}
	return first, starts == 1 || starts == 0 && set != 0
}

// plural names values: "day 1", "days 1 and 15", "minutes 0 to 10", "days 1 to 31 in steps of 2".
func plural(name string, set uint64) string {
	if bits.OnesCount64(set) == 1 {
		return name + " " + strconv.Itoa(bits.TrailingZeros64(set))
	}
	first, last := bits.TrailingZeros64(set), 63-bits.LeadingZeros64(set)
	if step, ok := steps(set); ok && bits.OnesCount64(set) >= listedStep && step > 1 {
		return fmt.Sprintf("%ss %d to %d in steps of %d", name, first, last, step)
	}
	var items []string
	for v := first; v <= last; v++ {
		if set&(1<<v) == 0 {
			continue
		}
		end := v
		for end < last && set&(1<<(end+1)) != 0 {
			end++
		}
		switch {
		case end >= v+2:
			items = append(items, fmt.Sprintf("%d to %d", v, end))
			v = end
		default:
			items = append(items, strconv.Itoa(v))
		}
	}
	return name + "s " + listWords(items)
}

// steps reports whether the values of a set have equal distances, and that distance.
func steps(set uint64) (step int, ok bool) {
	last := -1
	for x := set; x != 0; x &= x - 1 {
		v := bits.TrailingZeros64(x)
		if last >= 0 && step != 0 && v-last != step {
			return 0, false
		}
		if last >= 0 {
			step = v - last
		}
		last = v
	}
	return step, step > 0
}

// around reports whether a set goes around a cycle of n in equal steps: */15 is every 15 minutes, 7-59/20 is every 20
// minutes from minute 7.
func around(set uint64, n int) (step, from int, ok bool) {
	step, ok = steps(set)
	return step, bits.TrailingZeros64(set), ok && n%step == 0 && bits.OnesCount64(set) == n/step
}

// clockSet is times of day: each hour with each minute and each second.
type clockSet struct{ sec, min, hour uint64 }

// timeWords describes a clockSet. everyDay: it holds on each day, so that hours may wrap around midnight.
type timeWords struct {
	clockSet
	elapsed, everyDay bool
}

// words returns the times. listed: they are a list of times of day. elapsed: see zoned.words.
func (t timeWords) words() (text string, listed, elapsed bool) {
	hourStep, _, stepped := around(t.hour, 24)
	stepped = stepped && hourStep > 1 && t.elapsed
	n := bits.OnesCount64(t.sec) * bits.OnesCount64(t.min) * bits.OnesCount64(t.hour)
	if n <= listedTime && !stepped {
		return "at " + listWords(t.list()), true, false
	}
	if t.sec != 1 {
		text, elapsed = t.secondWords()
		return text, false, elapsed
	}
	if step, from, ok := around(t.min, 60); ok {
		switch {
		case step == 1:
			return "every minute" + t.during(), false, true
		case from == 0:
			return fmt.Sprintf("every %d minutes%s", step, t.during()), false, true
		case 60/step >= listedStep:
			return fmt.Sprintf("every %d minutes from minute %d of the hour%s", step, from,
				comma(t.during())), false, true
		}
	}
	if t.min == 1 && t.hour == allHours {
		return "every hour", false, true
	}
	if from, to, ok := t.hours(); ok && t.min == 1 && !stepped {
		return fmt.Sprintf("every hour from %02d:00 to %02d:00", from, to), false, false
	}
	of, elapsed := t.ofHours()
	return "at " + plural("minute", t.min) + of, false, elapsed
}

// comma separates a range of hours from words that end with "from".
func comma(text string) string {
	if text == "" {
		return ""
	}
	return "," + text
}

// secondWords describes times that are not whole minutes.
func (t timeWords) secondWords() (text string, elapsed bool) {
	step, from, ok := around(t.sec, 60)
	switch {
	case ok && step == 1:
		text = "every second"
	case ok && from == 0:
		text = fmt.Sprintf("every %d seconds", step)
	default:
		text = "at " + plural("second", t.sec)
	}
	if t.min == sixty {
		if strings.HasPrefix(text, "at ") {
			text += " of every minute"
		}
		return text + t.during(), true
	}
	of, elapsed := t.ofHours()
	return text + " of " + plural("minute", t.min) + of, elapsed
}

// list is the times of day, in order.
func (t timeWords) list() []string {
	var out []string
	for h := t.hour; h != 0; h &= h - 1 {
		for m := t.min; m != 0; m &= m - 1 {
			for s := t.sec; s != 0; s &= s - 1 {
				text := fmt.Sprintf("%02d:%02d", bits.TrailingZeros64(h), bits.TrailingZeros64(m))
				if second := bits.TrailingZeros64(s); second != 0 {
					text += fmt.Sprintf(":%02d", second)
				}
				out = append(out, text)
			}
		}
	}
	return out
}

// hours is the range of hours, if they follow each other. A range that wraps around midnight is one only if the next
// day is admissible as well.
func (t timeWords) hours() (from, to int, ok bool) {
	from, ok = cyclic(t.hour, 24)
	to = (from + bits.OnesCount64(t.hour) - 1) % 24
	return from, to, ok && (from <= to || t.everyDay)
}

// during says in which hours something happens all the time.
func (t timeWords) during() string {
	if t.hour == allHours {
		return ""
	}
	if from, to, ok := t.hours(); ok {
		return fmt.Sprintf(" from %02d:00 to %02d:59", from, to)
	}
	return " in " + plural("hour", t.hour)
}

// ofHours says which hours a minute belongs to.
func (t timeWords) ofHours() (text string, elapsed bool) {
	if t.hour == allHours {
		return " of every hour", true
	}
	if step, from, ok := around(t.hour, 24); ok && t.elapsed {
		return fmt.Sprintf(" of every %s hour from %02d:00", nth(int64(step)), from), true
	}
	if from, to, ok := t.hours(); ok {
		return fmt.Sprintf(" of every hour from %02d:00 to %02d:59", from, to), false
	}
	return " of " + plural("hour", t.hour), false
}
