package schedule

import (
	"math/bits"
	"strings"
	"time"
)

// cron is a compiled expression: a bit for each admissible value of each field.
type cron struct {
	sec, min, hour uint64
	dom, month     uint32
	dow            uint8
	either         bool // both day fields are restricted: one match suffices

	lastMinus uint32   // L-n: bit n; L is L-0
	nearest   uint32   // nW: bit n
	lastWork  bool     // LW
	nth       [6]uint8 // d#n: bit d of nth[n]; nth[0] is the last
}

// compileCron also stores the canonical text in spec.
func compileCron(spec *Spec, loc *time.Location, text string) (rule, error) {
	c, err := parseCron(text, spec.Cron)
	if err != nil {
		return nil, err
	}
	z := newZoned(c, loc, spec.DST)
	f := strings.Fields(strings.ToLower(spec.Cron))
	if len(f) == 1 { // a macro
		f = strings.Fields(text)
	}
	minute, hour := f[len(f)-5], f[len(f)-4]
	if repeats(minute) || repeats(hour) {
		z.gap, z.fold = GapSkip, FoldBoth // elapsed time: fire each time the clock shows a matching reading
	}
	z.allHours = c.hour == 1<<24-1
	spec.Cron = c.canonical(strings.Fields(text))
	return z, nil
}

// repeats reports whether a field is repetitive and not a time of day: *, */15, and H/15, which is */15 with an offset.
func repeats(field string) bool { return field[0] == '*' || strings.HasPrefix(field, "h/") }

// from finds the first matching reading in [w, limit], month by month.
func (c *cron) from(w, limit wall) (wall, bool) {
	if w > limit {
		return 0, false
	}
	t := time.Unix(int64(w), 0).UTC()
	year, month, day := t.Date()
	midnight := int64(w) - (int64(t.Hour())*3600 + int64(t.Minute())*60 + int64(t.Second()))
	first := midnight - int64(day-1)*daySeconds // of the month
	for first <= int64(limit) {
		length := daysIn(year, month)
		if c.month&(1<<month) != 0 {
			days := c.daysOf(first, length) & (^uint32(0) << day)
			for ; days != 0; days &= days - 1 {
				date := first + int64(bits.TrailingZeros32(days)-1)*daySeconds
				if s, ok := c.timeFrom(int64(w) - date); ok {
					r := wall(date + s)
					return r, r <= limit
				}
			}
		}
		first += int64(length) * daySeconds
		day = 1
		if month++; month > 12 {
			month, year = 1, year+1
		}
	}
	return 0, false
}

// timeFrom returns the first matching time of day at or after second s, which is negative on days after the first.
func (c *cron) timeFrom(s int64) (int64, bool) {
	if s <= 0 {
		return hms(bits.TrailingZeros64(c.hour), bits.TrailingZeros64(c.min), bits.TrailingZeros64(c.sec)), true
	}
	h, m, sec := int(s/3600), int(s/60%60), int(s%60)
	if c.hour&(1<<h) != 0 {
		if c.min&(1<<m) != 0 {
			if x := c.sec >> sec << sec; x != 0 {
				return hms(h, m, bits.TrailingZeros64(x)), true
			}
		}
		if x := c.min >> (m + 1) << (m + 1); x != 0 {
			return hms(h, bits.TrailingZeros64(x), bits.TrailingZeros64(c.sec)), true
		}
	}
	if x := c.hour >> (h + 1) << (h + 1); x != 0 {
		return hms(bits.TrailingZeros64(x), bits.TrailingZeros64(c.min), bits.TrailingZeros64(c.sec)), true
	}
	return 0, false
}

func hms(h, m, s int) int64 { return int64(h)*3600 + int64(m)*60 + int64(s) }

// daysOf returns the matching days of a month as bits 1 to 31.
func (c *cron) daysOf(first int64, length int) uint32 {
	all := uint32(1)<<(length+1) - 2
	begins := weekday(first)
	dom := c.dom
	if c.lastMinus|c.nearest != 0 || c.lastWork {
		dom |= c.specialDays(begins, length)
	}
	dow := c.weekdays(begins, length)
	if c.either {
		return (dom | dow) & all
	}
	return dom & dow & all
}

// specialDays are the days that L, L-n, nW and LW mean in one month.
func (c *cron) specialDays(begins, length int) uint32 {
	var days uint32
	for x := c.lastMinus; x != 0; x &= x - 1 {
		if d := length - bits.TrailingZeros32(x); d > 0 {
			days |= 1 << d
		}
	}
	for x := c.nearest; x != 0; x &= x - 1 {
		if n := bits.TrailingZeros32(x); n <= length {
			days |= 1 << nearestWorkday(n, begins, length)
		}
	}
	if c.lastWork {
		days |= 1 << nearestWorkday(length, begins, length)
	}
	return days
}

// nearestWorkday is the Monday to Friday nearest to a day, within its month.
func nearestWorkday(day, begins, length int) int {
	switch (begins + day - 1) % 7 {
	case 6: // Saturday
		if day == 1 {
			return 3
		}
		return day - 1
	case 0: // Sunday
		if day == length {
			return day - 2
		}
		return day + 1
	}
	return day
}

// weekdays are the days of one month on which the day-of-week field matches.
func (c *cron) weekdays(begins, length int) uint32 {
	var days uint32
	if c.dow == 0x7f {
		return ^days
	}
	for d := range 7 {
		first := 1 + (d-begins+7)%7
		if c.dow&(1<<d) != 0 {
			days |= sevenths << first
		}
		for n := 1; n <= 5; n++ {
			if c.nth[n]&(1<<d) != 0 && first+7*(n-1) <= length {
				days |= 1 << (first + 7*(n-1))
			}
		}
		if c.nth[0]&(1<<d) != 0 {
			days |= 1 << (first + (length-first)/7*7)
		}
	}
	return days
}

// sevenths has every seventh bit set.
const sevenths = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28

// weekday of the midnight that is s seconds after 1970; Sunday is 0.
func weekday(s int64) int {
	d := (s/daySeconds + 4) % 7
	if d < 0 {
		d += 7
	}
	return int(d)
}

func daysIn(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
