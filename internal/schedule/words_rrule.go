package schedule

import (
	"strings"
	"time"
)

// words describes the rule by its filters. A rule whose filters a cron expression can express has the words of that
// expression. All others list their filters.
func (r *rrule) words() string {
	var text string
	if c, ok := r.cron(); ok {
		text, _ = c.words(false, r.interval == 1 && len(r.setPos) == 0)
	} else {
		text = r.filterWords()
	}
	unit := [...]string{daily: "day", weekly: "week", monthly: "month", yearly: "year"}[r.freq]
	if r.interval > 1 {
		step := "every " + nth(r.interval) + " " + unit
		if plain, ok := strings.CutSuffix(text, " every day"); ok && r.freq == daily {
			text = plain + " " + step
		} else {
			text += ", " + step
		}
	}
	if len(r.setPos) > 0 {
		text += ", only the " + positions(r.setPos) + " of each " + unit
	}
	weeks := r.freq == weekly && (r.interval > 1 || len(r.setPos) > 0)
	if (weeks || len(r.weekNos) > 0) && r.weekFrom != 1 {
		text += ", weeks begin on " + time.Weekday(r.weekFrom).String()
	}
	if start := readingWords(r.start); r.interval > 1 || r.start.String() != defaultStart {
		text += ", from " + start
	}
	switch {
	case !r.untilInstant.IsZero():
		text += ", until " + moment(r.untilInstant, time.UTC)
	case r.until != noBound:
		text += ", until " + readingWords(r.until)
	}
	return text
}

// clock is the times of day as sets. They are each hour with each minute and each second.
func (r *rrule) clock() (c clockSet) {
	for _, t := range r.times {
		c.hour |= 1 << (t / 3600)
		c.min |= 1 << (t / 60 % 60)
		c.sec |= 1 << (t % 60)
	}
	return c
}

// cron returns an expression with the days and times of the rule, without regard to its interval, positions, start
// and end. ok is false if there is none.
func (r *rrule) cron() (_ *cron, ok bool) {
	if len(r.yearDays)+len(r.weekNos) > 0 || len(r.nth) > 0 && r.freq == yearly && r.months == 0 {
		return nil, false
	}
	clock := r.clock()
	c := &cron{
		sec: clock.sec, min: clock.min, hour: clock.hour, dom: allDays, month: allMonths, dow: allWeek,
	}
	if r.months != 0 {
		c.month = r.months
	}
	if len(r.monthDays) > 0 {
		c.dom = 0
		for _, d := range r.monthDays {
			if d > 0 {
				c.dom |= 1 << d
			} else {
				c.lastMinus |= 1 << (-d - 1)
			}
		}
	}
	if r.weekdays != 0 || len(r.nth) > 0 {
		c.dow = r.weekdays
		for _, x := range r.nth {
			switch {
			case x.n == -1:
				c.nth[0] |= 1 << x.day
			case x.n >= 1 && x.n <= 5:
				c.nth[x.n] |= 1 << x.day
			default:
				return nil, false
			}
		}
	}
	return c, true
}

// filterWords lists the filters. A day must pass all of them.
func (r *rrule) filterWords() string {
	text, _, _ := timeWords{r.clock(), false, false}.words()
	var filters []string
	if r.weekdays != 0 {
		filters = append(filters, weekdayWords(r.weekdays))
	}
	of := "month"
	if r.freq == yearly && r.months == 0 {
		of = "year"
	}
	for _, x := range r.nth {
		filters = append(filters, "the "+position(x.n)+" "+time.Weekday(x.day).String()+" of the "+of)
	}
	if len(filters) > 0 { // any of these
		filters = []string{"on " + listWords(filters)}
	}
	for _, f := range []struct {
		on, name string
		numbers  []int
	}{
		{"on the ", " day of the month", r.monthDays},
		{"on the ", " day of the year", r.yearDays},
		{"in the ", " week of the year", r.weekNos},
	} {
		if len(f.numbers) > 0 {
			filters = append(filters, f.on+positions(f.numbers)+f.name)
		}
	}
	if r.months != 0 {
		filters = append(filters, "in "+monthWords(r.months))
	}
	return text + " " + strings.Join(filters, ", only ")
}

// positions lists numbers that count from the begin or, if negative, from the end.
func positions(list []int) string {
	items := make([]string, len(list))
	for i, n := range list {
		items[i] = position(n)
	}
	return listWords(items)
}

func position(n int) string {
	switch {
	case n == -1:
		return "last"
	case n < 0:
		return nth(int64(-n)) + " last"
	case n < len(ordinals):
		return ordinals[n]
	}
	return nth(int64(n))
}
