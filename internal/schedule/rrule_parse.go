package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxInterval = 1000
	maxCount    = 5_000
	maxTimes    = 1440 // times of day in one rule
	maxSetPos   = 32   // positions in BYSETPOS
)

// defaultStart is the DTSTART of a rule that has none: a Monday, midnight.
const defaultStart = "1970-01-05T00:00:00"

func rruleError(text, format string, args ...any) *Error {
	return &Error{Field: "rrule", Problem: quote(text) + ": " + fmt.Sprintf(format, args...)}
}

func compileRRule(spec *Spec, loc *time.Location) (rule, error) {
	text := strings.ToUpper(strings.TrimSpace(spec.RRule))
	anchored := spec.Anchor != "" || strings.Contains(text, "DTSTART")
	start, text, err := splitStart(spec, text)
	if err != nil {
		return nil, err
	}
	r := &rrule{interval: 1, weekFrom: 1, start: wall(start.Unix()), until: noBound}
	p := &rruleParser{text: text, rrule: r, anchored: anchored}
	if err := p.parse(); err != nil {
		return nil, err
	}
	parts := strings.Split(text, ";")
	slices.Sort(parts)
	spec.RRule, spec.Anchor = strings.Join(parts, ";"), start.Format(localTime)
	return newZoned(r, loc, spec.DST), nil
}

// splitStart finds the start of the series: an anchor, or a DTSTART line in the text.
func splitStart(spec *Spec, text string) (time.Time, string, error) {
	anchor := spec.Anchor
	rules := 0
	for line := range strings.FieldsSeq(text) {
		switch {
		case strings.HasPrefix(line, "DTSTART"):
			head, value, _ := strings.Cut(line, ":")
			own := cmp.Or(spec.Timezone, "UTC")
			zone := own
			if strings.HasSuffix(value, "Z") {
				zone = "UTC"
			}
			if named, ok := strings.CutPrefix(head, "DTSTART;TZID="); ok {
				zone, head = named, "DTSTART"
			}
			if head != "DTSTART" || !strings.EqualFold(zone, own) {
				e := rruleError(text, "DTSTART names a zone other than timezone, or a form that is not taken")
				e.Fix = "write DTSTART:20260131T090000 and put the zone into timezone"
				return time.Time{}, "", e
			}
			t, err := time.Parse("20060102T150405", strings.TrimSuffix(value, "Z"))
			if err != nil || anchor != "" {
				e := rruleError(text, "DTSTART is not a date and time, or there is an anchor too")
				e.Fix = "write DTSTART:20260131T090000 and no anchor"
				return time.Time{}, "", e
			}
			anchor = t.Format(localTime)
		case rules == 0 && (strings.HasPrefix(line, "RRULE:") || strings.Contains(line, "FREQ=")):
			text = strings.TrimPrefix(line, "RRULE:")
			rules++
		default:
			return time.Time{}, "", rruleError(text,
				"%s is not taken; only DTSTART and one RRULE are, exclude dates with calendars", quote(line))
		}
	}
	if anchor == "" {
		anchor = defaultStart
	}
	t, err := time.Parse(localTime, anchor)
	if err != nil {
		return t, "", &Error{
			Field: "anchor", Problem: quote(anchor) + " is not a reading of the clock in timezone",
			Fix: "write for example 2026-01-31T09:00:00, without an offset",
		}
	}
	return t, text, checkYear("anchor", t)
}

// rruleParser fills an rrule from the parts of its text.
type rruleParser struct {
	text                   string
	anchored               bool
	count                  int
	hours, minutes, second []int
	*rrule
}

func (p *rruleParser) parse() error {
	seen := map[string]bool{}
	p.freq = -1
	for part := range strings.SplitSeq(p.text, ";") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || value == "" {
			return rruleError(p.text, "%s is not KEY=VALUE", quote(part))
		}
		if seen[key] {
			return rruleError(p.text, "%s stands twice", key)
		}
		seen[key] = true
		if err := p.part(key, value); err != nil {
			return rruleError(p.text, "%s=%s: %s", key, quote(value), err)
		}
	}
	if p.freq < 0 {
		return rruleError(p.text, "FREQ is missing; write FREQ=DAILY, WEEKLY, MONTHLY or YEARLY")
	}
	if err := p.checkParts(seen); err != nil {
		return err
	}
	p.fillDefaults()
	return p.finish()
}

func (p *rruleParser) part(key, value string) (err error) {
	switch key {
	case "FREQ":
		return p.setFreq(value)
	case "INTERVAL":
		var n int
		n, err = number(value, 1, maxInterval)
		p.interval = int64(n)
	case "COUNT":
		p.count, err = number(value, 1, maxCount)
	case "UNTIL":
		p.until, err = p.parseUntil(value)
	case "WKST":
		p.weekFrom, err = weekdayName(value)
	case "BYMONTH":
		var months []int
		months, err = numbers(value, 1, 12, false)
		for _, m := range months {
			p.months |= 1 << m
		}
	case "BYMONTHDAY":
		p.monthDays, err = numbers(value, 1, 31, true)
	case "BYYEARDAY":
		p.yearDays, err = numbers(value, 1, 366, true)
	case "BYWEEKNO":
		p.weekNos, err = numbers(value, 1, 53, true)
	case "BYSETPOS":
		p.setPos, err = numbers(value, 1, 366, true)
	case "BYHOUR":
		p.hours, err = numbers(value, 0, 23, false)
	case "BYMINUTE":
		p.minutes, err = numbers(value, 0, 59, false)
	case "BYSECOND":
		p.second, err = numbers(value, 0, 59, false)
	case "BYDAY":
		return p.setDays(value)
	default:
		return fmt.Errorf("this part is not known")
	}
	return err
}

func (p *rruleParser) setFreq(value string) error {
	switch value {
	case "DAILY":
		p.freq = daily
	case "WEEKLY":
		p.freq = weekly
	case "MONTHLY":
		p.freq = monthly
	case "YEARLY":
		p.freq = yearly
	case "HOURLY", "MINUTELY", "SECONDLY":
		return fmt.Errorf("rules faster than DAILY are not supported; use every or cron")
	default:
		return fmt.Errorf("write DAILY, WEEKLY, MONTHLY or YEARLY")
	}
	return nil
}

func (p *rruleParser) setDays(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		if len(item) < 2 {
			return fmt.Errorf("%s is not a weekday such as MO or -1FR", quote(item))
		}
		day, err := weekdayName(item[len(item)-2:])
		if err != nil {
			return err
		}
		if len(item) == 2 {
			p.weekdays |= 1 << day
			continue
		}
		n, err := numbers(item[:len(item)-2], 1, 53, true)
		if err != nil {
			return err
		}
		p.nth = append(p.nth, nthDay{n: n[0], day: day})
	}
	return nil
}

// checkParts rejects combinations that RFC 5545 forbids or leaves undefined.
func (p *rruleParser) checkParts(seen map[string]bool) error {
	switch {
	case seen["COUNT"] && seen["UNTIL"]:
		return rruleError(p.text, "COUNT and UNTIL exclude each other")
	case seen["COUNT"] && !p.anchored:
		return rruleError(p.text,
			"COUNT needs a start to count from; set anchor, or begin with DTSTART:20260131T090000")
	case len(p.nth) > 0 && (p.freq == daily || p.freq == weekly || seen["BYWEEKNO"]):
		return rruleError(p.text, "a number before a weekday needs FREQ=MONTHLY or YEARLY, and no BYWEEKNO")
	case seen["BYMONTHDAY"] && p.freq == weekly:
		return rruleError(p.text, "BYMONTHDAY does not go with FREQ=WEEKLY")
	case (seen["BYYEARDAY"] || seen["BYWEEKNO"]) && p.freq != yearly:
		return rruleError(p.text, "BYYEARDAY and BYWEEKNO need FREQ=YEARLY")
	case seen["BYWEEKNO"] && !seen["BYDAY"]:
		return rruleError(p.text, "BYWEEKNO needs BYDAY, to say which days of the week")
	case len(p.setPos) > maxSetPos:
		return rruleError(p.text, "%d positions in BYSETPOS; at most %d are taken", len(p.setPos), maxSetPos)
	}
	others := 0
	for part := range seen {
		if strings.HasPrefix(part, "BY") && part != "BYSETPOS" {
			others++
		}
	}
	if seen["BYSETPOS"] && others == 0 {
		return rruleError(p.text, "BYSETPOS needs another BY… part to choose from")
	}
	return nil
}

// fillDefaults takes parts that the rule leaves out from the start.
func (p *rruleParser) fillDefaults() {
	start := time.Unix(int64(p.start), 0).UTC()
	if len(p.monthDays)+len(p.yearDays)+len(p.weekNos)+len(p.nth) == 0 && p.weekdays == 0 {
		switch p.freq {
		case weekly:
			p.weekdays = 1 << start.Weekday()
		case monthly, yearly:
			p.monthDays = []int{start.Day()}
			if p.freq == yearly && p.months == 0 {
				p.months = 1 << start.Month()
			}
		}
	}
	if p.hours == nil {
		p.hours = []int{start.Hour()}
	}
	if p.minutes == nil {
		p.minutes = []int{start.Minute()}
	}
	if p.second == nil {
		p.second = []int{start.Second()}
	}
}

func (p *rruleParser) finish() error {
	if n := len(p.hours) * len(p.minutes) * len(p.second); n > maxTimes {
		return rruleError(p.text, "%d times a day; at most %d are taken, use every or cron", n, maxTimes)
	}
	for _, h := range p.hours {
		for _, m := range p.minutes {
			for _, s := range p.second {
				p.times = append(p.times, hms(h, m, s))
			}
		}
	}
	slices.Sort(p.times)
	most := []int{daily: 1, weekly: 7, monthly: 31, yearly: maxPeriodDays}[p.freq] * len(p.times)
	if len(p.setPos) > 0 && !slices.ContainsFunc(p.setPos, func(pos int) bool { return max(pos, -pos) <= most }) {
		return rruleError(p.text, "BYSETPOS names no position that exists: there are at most %d times to choose from",
			most)
	}
	if p.count > 0 {
		p.until = p.lastOf(p.count)
	}
	return nil
}

// lastOf is the n-th reading of the rule, found by counting whole periods. It is noBound if the rule has fewer before
// the year 2200.
func (r *rrule) lastOf(n int) wall {
	limit := wall(time.Date(lastYear+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	var buf [maxPeriodDays]int64
	for k := int64(0); ; k++ {
		var p period
		if k, p = r.skipMonths(k); wall(p.first*daySeconds) > limit {
			return noBound
		}
		s := r.setOf(p, buf[:0])
		first := s.lower(r.start)
		if c := s.size() - first; c < n {
			n -= c
			continue
		}
		return s.at(first + n - 1)
	}
}

// parseUntil reads an instant (with Z), a reading (without Z), or a date, which means its whole day.
func (p *rruleParser) parseUntil(s string) (wall, error) {
	if t, err := time.Parse("20060102T150405Z", s); err == nil {
		p.untilInstant = t
		return wall(t.Unix()) + maxOffsets, nil // the instant decides
	}
	if t, err := time.Parse("20060102T150405", s); err == nil {
		return wall(t.Unix()), nil
	}
	if t, err := time.Parse("20060102", s); err == nil {
		return wall(t.Unix() + daySeconds - 1), nil
	}
	return 0, fmt.Errorf("write 20261231, 20261231T235959 or 20261231T235959Z")
}

func weekdayName(s string) (int, error) {
	if i := strings.Index("SUMOTUWETHFRSA", s); len(s) == 2 && i >= 0 && i%2 == 0 {
		return i / 2, nil
	}
	return 0, fmt.Errorf("%s is not a weekday; write MO, TU, WE, TH, FR, SA or SU", quote(s))
}

func number(s string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < lo || n > hi {
		return 0, fmt.Errorf("%s is not %d to %d", quote(s), lo, hi)
	}
	return n, nil
}

// numbers reads a list. With negative it also accepts -hi to -lo. It rejects duplicates.
func numbers(s string, lo, hi int, negative bool) ([]int, error) {
	var out []int
	for item := range strings.SplitSeq(s, ",") {
		digits, minus := strings.CutPrefix(item, "-")
		n, err := number(strings.TrimPrefix(digits, "+"), lo, hi)
		if err != nil || minus && !negative {
			return nil, fmt.Errorf("%s is not %d to %d%s", quote(item), lo, hi,
				map[bool]string{true: fmt.Sprintf(", or %d to %d", -hi, -lo)}[negative])
		}
		if minus {
			n = -n
		}
		if slices.Contains(out, n) {
			return nil, fmt.Errorf("%d stands twice", n)
		}
		out = append(out, n)
	}
	return out, nil
}
