package schedule

import (
	"slices"
	"sort"
	"time"
)

// rrule is a compiled recurrence rule. The days of one period (a day, week, month or year) are computed from the
// period's number alone, so a search can begin anywhere and never walks from the start.
type rrule struct {
	freq     frequency
	interval int64
	start    wall // first admissible reading (DTSTART)
	until    wall // last admissible reading
	// untilInstant is the last admissible instant, if UNTIL is in UTC; zero otherwise.
	untilInstant time.Time
	weekFrom     int // WKST; Sunday is 0

	months    uint32 // bits 1–12; 0 means any
	monthDays []int
	yearDays  []int
	weekNos   []int
	weekdays  uint8    // without a number; 0 and no nth mean any
	nth       []nthDay // with a number: 2MO, -1FR
	setPos    []int
	times     []int64 // seconds of the day, ascending
}

type frequency int

const (
	daily frequency = iota
	weekly
	monthly
	yearly
)

type nthDay struct{ n, day int }

// maxPeriodDays is the maximum number of days in a period.
const maxPeriodDays = 366

// period is a span of days, first and last as days since 1970.
type period struct{ first, last int64 }

// from finds the first reading in [w, limit], period by period.
func (r *rrule) from(w, limit wall) (wall, bool) {
	w, limit = max(w, r.start), min(limit, r.until)
	var buf [maxPeriodDays]int64
	for k := r.periodOf(w); ; k++ {
		var p period
		if k, p = r.skipMonths(k); wall(p.first*daySeconds) > limit {
			return 0, false
		}
		s := r.setOf(p, buf[:0])
		if i := s.lower(w); i < s.size() {
			t := s.at(i)
			return t, t <= limit
		}
	}
}

// skipMonths is the first period from the k-th on that may have days. It skips whole months that the rule excludes,
// because going day by day would be slow.
func (r *rrule) skipMonths(k int64) (int64, period) {
	p := r.period(k)
	if r.freq == daily && r.months != 0 {
		if y, m, md := civil(p.first); r.months&(1<<m) == 0 {
			k += int64(daysIn(y, m)-md) / r.interval
			p = r.period(k)
		}
	}
	return k, p
}

// set is the readings of one period in order: the times of the rule on its days, or those that BYSETPOS picks.
type set struct {
	days    []int64
	times   []int64
	picked  [2 * maxSetPos]int // indexes into days × times, sorted
	picks   int
	picking bool
}

func (r *rrule) setOf(p period, days []int64) set {
	s := set{days: r.daysIn(p, days), times: r.times, picking: len(r.setPos) > 0}
	n := len(s.days) * len(s.times)
	for _, pos := range r.setPos {
		if pos < 0 {
			pos += n + 1
		}
		if pos >= 1 && pos <= n {
			s.picked[s.picks] = pos - 1
			s.picks++
		}
	}
	slices.Sort(s.picked[:s.picks])
	s.picks = len(slices.Compact(s.picked[:s.picks]))
	return s
}

func (s *set) size() int {
	if s.picking {
		return s.picks
	}
	return len(s.days) * len(s.times)
}

func (s *set) at(i int) wall {
	if s.picking {
		i = s.picked[i]
	}
	return wall(s.days[i/len(s.times)]*daySeconds + s.times[i%len(s.times)])
}

// lower is the index of the first reading at or after w.
func (s *set) lower(w wall) int {
	return sort.Search(s.size(), func(i int) bool { return s.at(i) >= w })
}

// periodOf is the number of the first period that may have readings from w on.
func (r *rrule) periodOf(w wall) int64 {
	day, start := dayOf(w), dayOf(r.start)
	switch r.freq {
	case daily:
		return (day - start) / r.interval
	case weekly:
		return (weekStart(day, r.weekFrom) - weekStart(start, r.weekFrom)) / 7 / r.interval
	}
	y, m, _ := civil(day)
	sy, sm, _ := civil(start)
	if r.freq == monthly {
		return (int64(y-sy)*12 + int64(m-sm)) / r.interval
	}
	return int64(y-sy) / r.interval
}

// period is the k-th period.
func (r *rrule) period(k int64) period {
	start := dayOf(r.start)
	switch r.freq {
	case daily:
		d := start + k*r.interval
		return period{d, d}
	case weekly:
		d := weekStart(start, r.weekFrom) + 7*k*r.interval
		return period{d, d + 6}
	}
	y, m, _ := civil(start)
	if r.freq == monthly {
		first := dayNumber(y, m+time.Month(k*r.interval), 1)
		_, month, _ := civil(first)
		fy, _, _ := civil(first)
		return period{first, first + int64(daysIn(fy, month)) - 1}
	}
	y += int(k * r.interval)
	return period{dayNumber(y, 1, 1), dayNumber(y, 12, 31)}
}

// daysIn appends the days of a period that every filter admits.
func (r *rrule) daysIn(p period, days []int64) []int64 {
	y, m, md := civil(p.first)
	length := daysIn(y, m)
	var year yearOf
	if r.freq == yearly { // only yearly rules need more than the month
		year = r.yearOf(y)
	}
	wd := weekday(p.first * daySeconds)
	for d := p.first; d <= p.last; d++ {
		if r.months == 0 || r.months&(1<<m) != 0 {
			if r.admits(date{d, wd, md, length}, &year) {
				days = append(days, d)
			}
		}
		if wd++; wd == 7 {
			wd = 0
		}
		if md++; md > length {
			md = 1
			if m++; m > 12 {
				y, m = y+1, 1
			}
			length = daysIn(y, m)
		}
	}
	return days
}

// date is a day, its weekday, its number in its month, and the month's length.
type date struct {
	day            int64
	wd, md, length int
}

// yearOf is what the filters of a yearly rule need about a year.
type yearOf struct {
	jan1    int64
	length  int
	weekOne [4]int64 // of the year before, this one, and the two after
}

func (r *rrule) yearOf(y int) yearOf {
	jan1 := dayNumber(y, 1, 1)
	out := yearOf{jan1: jan1, length: int(dayNumber(y+1, 1, 1) - jan1)}
	if len(r.weekNos) > 0 {
		for i := range out.weekOne {
			out.weekOne[i] = weekOne(y-1+i, r.weekFrom)
		}
	}
	return out
}

func (r *rrule) admits(d date, year *yearOf) bool {
	// The cheapest filter is first: for most rules it excludes six of seven days.
	if plain := r.weekdays&(1<<d.wd) != 0; !plain && (len(r.nth) > 0 || r.weekdays != 0) && !r.admitsNth(d, year) {
		return false
	}
	if len(r.monthDays) > 0 && !among(r.monthDays, d.md, d.length) {
		return false
	}
	if len(r.yearDays) > 0 && !among(r.yearDays, int(d.day-year.jan1)+1, year.length) {
		return false
	}
	return len(r.weekNos) == 0 || r.admitsWeek(d.day, year)
}

// among reports whether the i-th of n is wanted, counted from either end.
func among(wanted []int, i, n int) bool {
	return slices.Contains(wanted, i) || slices.Contains(wanted, i-n-1)
}

// admitsNth counts the n-th weekday in the month, or in the year if the rule is yearly and names no month.
func (r *rrule) admitsNth(d date, year *yearOf) bool {
	i, n := d.md, d.length
	if r.freq == yearly && r.months == 0 {
		i, n = int(d.day-year.jan1)+1, year.length
	}
	for _, x := range r.nth {
		if x.day == d.wd && (x.n == (i-1)/7+1 || x.n == -((n-i)/7+1)) {
			return true
		}
	}
	return false
}

// admitsWeek numbers weeks as in ISO 8601, but begins them on WKST. The first days of a year may be in the last week of
// the year before, and its last days in the first week of the next.
func (r *rrule) admitsWeek(day int64, year *yearOf) bool {
	for i := 2; ; i-- {
		if first := year.weekOne[i]; day >= first {
			return among(r.weekNos, int(day-first)/7+1, int(year.weekOne[i+1]-first)/7)
		}
	}
}

// weekOne is the first day of the first week with at least four days in year y.
func weekOne(y, weekFrom int) int64 { return weekStart(dayNumber(y, 1, 4), weekFrom) }

func weekStart(day int64, weekFrom int) int64 {
	return day - int64((weekday(day*daySeconds)-weekFrom+7)%7)
}

func dayOf(w wall) int64 {
	d := int64(w) / daySeconds
	if int64(w)%daySeconds < 0 {
		d--
	}
	return d
}

func civil(day int64) (int, time.Month, int) { return time.Unix(day*daySeconds, 0).UTC().Date() }

func dayNumber(y int, m time.Month, d int) int64 {
	return dayOf(wall(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()))
}
