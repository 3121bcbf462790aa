package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Calendar excludes days and times of day, read on the schedule's wall clock.
// What it excludes is skipped with the reason "calendar".
type Calendar struct {
	// Dates: "2026-12-25", a range with both ends "2026-12-24/2027-01-01", or
	// every year "12-25".
	Dates []string `json:"dates,omitempty"`
	// Weekdays: "sat", "sun", …
	Weekdays []string `json:"weekdays,omitempty"`
	// Windows of the day, without their end: "12:00-13:00"; "22:00-06:00" goes
	// over midnight.
	Windows []string `json:"windows,omitempty"`
}

const (
	maxCalendars       = 16
	maxCalendarEntries = 1000
)

// span is a range of readings or of seconds of a day, without its end.
type span struct{ from, to wall }

// exclusion is a compiled Calendar.
type exclusion struct {
	dates    []span // sorted, not overlapping
	yearly   [13]uint32
	weekdays uint8
	windows  []span // of the day; to may lie on the next
}

// until says whether reading w is excluded, and where the cause of that ends.
func (e *exclusion) until(w wall) (wall, bool) {
	second := ((w % daySeconds) + daySeconds) % daySeconds
	midnight := w - second
	if e.weekdays&(1<<weekday(int64(midnight))) != 0 {
		return midnight + daySeconds, true
	}
	_, month, day := time.Unix(int64(w), 0).UTC().Date()
	if e.yearly[month]&(1<<day) != 0 {
		return midnight + daySeconds, true
	}
	i, _ := slices.BinarySearchFunc(e.dates, w, func(s span, w wall) int { return int(min(max(s.to-1-w, -1), 1)) })
	if i < len(e.dates) && e.dates[i].from <= w {
		return e.dates[i].to, true
	}
	for _, s := range e.windows {
		if second >= s.from && second < s.to {
			return midnight + s.to, true
		}
		if second+daySeconds < s.to { // begun yesterday
			return midnight + s.to - daySeconds, true
		}
	}
	return 0, false
}

func compileCalendars(calendars []Calendar) ([]exclusion, error) {
	if len(calendars) > maxCalendars {
		return nil, &Error{Field: "calendars", Problem: fmt.Sprintf("%d calendars; at most %d are taken", len(calendars), maxCalendars)}
	}
	var out []exclusion
	for i, c := range calendars {
		e, err := c.compile(fmt.Sprintf("calendars[%d]", i))
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (c Calendar) compile(at string) (exclusion, error) {
	var e exclusion
	if n := len(c.Dates) + len(c.Weekdays) + len(c.Windows); n > maxCalendarEntries {
		return e, &Error{Field: at, Problem: fmt.Sprintf("%d entries; at most %d are taken", n, maxCalendarEntries)}
	}
	for _, d := range c.Dates {
		if !e.addDate(d) {
			return e, &Error{Field: at + ".dates", Problem: quote(d) + " is not a date", Fix: "write 2026-12-25, 2026-12-24/2027-01-01, or 12-25 for every year"}
		}
	}
	e.dates = merge(e.dates)
	for _, name := range c.Weekdays {
		d, ok := dowField.number(strings.ToLower(name))
		if !ok || len(name) != 3 {
			return e, &Error{Field: at + ".weekdays", Problem: quote(name) + " is not a weekday", Fix: "write mon, tue, wed, thu, fri, sat or sun"}
		}
		e.weekdays |= 1 << d
	}
	if e.weekdays == 0x7f {
		return e, &Error{Field: at + ".weekdays", Problem: "all seven days are excluded", Fix: "leave at least one"}
	}
	for _, w := range c.Windows {
		s, ok := parseWindow(w)
		if !ok {
			return e, &Error{Field: at + ".windows", Problem: quote(w) + " is not a window of the day", Fix: "write 22:00-06:00"}
		}
		e.windows = append(e.windows, s)
	}
	return e, nil
}

func (e *exclusion) addDate(text string) bool {
	if d, err := time.Parse("2006-01-02", "2000-"+text); err == nil { // a leap year, so that 02-29 is a date
		e.yearly[d.Month()] |= 1 << d.Day()
		return true
	}
	first, last, ranged := strings.Cut(text, "/")
	if !ranged {
		last = first
	}
	from, err1 := time.Parse(time.DateOnly, first)
	to, err2 := time.Parse(time.DateOnly, last)
	if err1 != nil || err2 != nil || to.Before(from) {
		return false
	}
	e.dates = append(e.dates, span{wall(from.Unix()), wall(to.Unix() + daySeconds)})
	return true
}

// merge sorts spans and joins those that touch.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return int(min(max(a.from-b.from, -1), 1)) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

func parseWindow(text string) (span, bool) {
	a, b, ok := strings.Cut(text, "-")
	from, err1 := time.Parse("15:04", a)
	to, err2 := time.Parse("15:04", b)
	if b == "24:00" {
		to, err2 = from.Truncate(24*time.Hour).Add(24*time.Hour), nil
	}
	if !ok || err1 != nil || err2 != nil || from.Equal(to) {
		return span{}, false
	}
	if to.Before(from) {
		to = to.Add(24 * time.Hour)
	}
	day := from.Truncate(24 * time.Hour)
	return span{wall(from.Sub(day) / time.Second), wall(to.Sub(day) / time.Second)}, true
}
