package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Calendar excludes days and times of day on the schedule's wall clock. Excluded occurrences are skipped with the
// reason "calendar".
type Calendar struct {
	// Dates: "2026-12-25", a range with both ends "2026-12-24/2027-01-01", or every year "12-25".
	Dates []string `json:"dates,omitempty"`
	// Weekdays: "sat", "sun", …
	Weekdays []string `json:"weekdays,omitempty"`
	// Windows of the day, without their end: "12:00-13:00". "22:00-06:00" crosses midnight.
	Windows []string `json:"windows,omitempty"`
}

const (
	maxCalendars       = 16
	maxCalendarEntries = 1000 // in all calendars of a schedule
)

// span is a range of readings or of seconds of a day, without its end.
type span struct{ from, to wall }

// exclusion is what the calendars of a schedule exclude together.
type exclusion struct {
	dates    []span // whole days; sorted, apart from each other
	yearly   [13]uint32
	weekdays uint8
	windows  []span // seconds of a day; sorted, apart from each other
}

// until reports whether reading w is excluded, and where that exclusion ends.
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
	if end, ok := covering(e.dates, w); ok {
		return end, true
	}
	end, ok := covering(e.windows, second)
	return midnight + end, ok
}

// covering returns the end of the span that contains w.
func covering(spans []span, w wall) (wall, bool) {
	i, _ := slices.BinarySearchFunc(spans, w, func(s span, w wall) int { return cmp.Compare(s.to-1, w) })
	if i < len(spans) && spans[i].from <= w {
		return spans[i].to, true
	}
	return 0, false
}

// lastDate is the end of the last dated exclusion, as if in UTC. Zero means none.
func (e *exclusion) lastDate() time.Time {
	if len(e.dates) == 0 {
		return time.Time{}
	}
	return time.Unix(int64(e.dates[len(e.dates)-1].to), 0)
}

// compileCalendars joins calendars into one exclusion. It returns nil if they exclude nothing.
func compileCalendars(calendars []Calendar) (*exclusion, error) {
	if len(calendars) > maxCalendars {
		return nil, &Error{
			Field:   "calendars",
			Problem: fmt.Sprintf("%d calendars; at most %d are taken", len(calendars), maxCalendars),
		}
	}
	var e exclusion
	n := 0
	for i, c := range calendars {
		if n += len(c.Dates) + len(c.Weekdays) + len(c.Windows); n > maxCalendarEntries {
			return nil, &Error{
				Field: "calendars", Problem: fmt.Sprintf("more than %d entries", maxCalendarEntries),
				Fix: "write ranges of dates, or leave out what is past",
			}
		}
		if err := e.add(c, fmt.Sprintf("calendars[%d]", i)); err != nil {
			return nil, err
		}
	}
	e.dates, e.windows = merge(e.dates), merge(e.windows)
	switch {
	case n == 0:
		return nil, nil
	case e.weekdays == 0x7f:
		return nil, &Error{Field: "calendars", Problem: "all seven weekdays are excluded", Fix: "leave at least one"}
	case len(e.windows) == 1 && e.windows[0] == span{0, daySeconds}:
		return nil, &Error{Field: "calendars", Problem: "the windows exclude the whole day", Fix: "leave some of it"}
	}
	return &e, nil
}

func (e *exclusion) add(c Calendar, at string) error {
	for _, d := range c.Dates {
		if !e.addDate(d) {
			return &Error{
				Field: at + ".dates", Problem: quote(d) + " is not a date",
				Fix: "write 2026-12-25, 2026-12-24/2027-01-01, or 12-25 for every year",
			}
		}
	}
	for _, name := range c.Weekdays {
		d, ok := dowField.number(strings.ToLower(name))
		if !ok || len(name) != 3 {
			return &Error{
				Field: at + ".weekdays", Problem: quote(name) + " is not a weekday",
				Fix: "write mon, tue, wed, thu, fri, sat or sun",
			}
		}
		e.weekdays |= 1 << d
	}
	for _, w := range c.Windows {
		if !e.addWindow(w) {
			return &Error{
				Field: at + ".windows", Problem: quote(w) + " is not a window of the day", Fix: "write 22:00-06:00",
			}
		}
	}
	return nil
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
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
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

// addWindow adds a window. A window that crosses midnight becomes two.
func (e *exclusion) addWindow(text string) bool {
	a, b, ok := strings.Cut(text, "-")
	from, ok1 := clockTime(a)
	to, ok2 := clockTime(b)
	if !ok || !ok1 || !ok2 || from == to || from == daySeconds {
		return false
	}
	if from < to {
		e.windows = append(e.windows, span{from, to})
		return true
	}
	e.windows = append(e.windows, span{from, daySeconds})
	if to > 0 {
		e.windows = append(e.windows, span{0, to})
	}
	return true
}

// clockTime reads 00:00 to 24:00 as seconds.
func clockTime(s string) (wall, bool) {
	if s == "24:00" {
		return daySeconds, true
	}
	t, err := time.Parse("15:04", s)
	return wall(hms(t.Hour(), t.Minute(), 0)), err == nil && len(s) == len("15:04")
}

// calendars writes an exclusion as one calendar in canonical form.
func (e *exclusion) calendars() []Calendar {
	if e == nil {
		return nil
	}
	var c Calendar
	for month, days := range e.yearly {
		for day := range 32 {
			if days&(1<<day) != 0 {
				c.Dates = append(c.Dates, fmt.Sprintf("%02d-%02d", month, day))
			}
		}
	}
	for _, d := range e.dates {
		date := func(w wall) string { return time.Unix(int64(w), 0).UTC().Format(time.DateOnly) }
		c.Dates = append(c.Dates, date(d.from)+"/"+date(d.to-daySeconds))
	}
	for d := range 7 {
		if e.weekdays&(1<<d) != 0 {
			c.Weekdays = append(c.Weekdays, dowField.names[3*d:3*d+3])
		}
	}
	for _, w := range e.windows {
		c.Windows = append(c.Windows,
			fmt.Sprintf("%02d:%02d-%02d:%02d", w.from/3600, w.from/60%60, w.to/3600, w.to/60%60))
	}
	return []Calendar{c}
}
