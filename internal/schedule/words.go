package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Words is the schedule in words, for people: "at 02:00 every day, Europe/Berlin". The words are derived from the
// compiled rule, so they say what fires and not what was written. Times are in UTC unless a zone is named. Two
// schedules with equal words have equal occurrences, unless the words shorten a list of calendar entries ("and 12
// more").
func (s *Schedule) Words() string {
	var parts []string
	zone := ""
	switch r := s.rule.(type) {
	case instant:
		parts = append(parts, "once at "+moment(r.t, s.loc))
	case *every:
		parts = append(parts, r.words(s.spec.Anchor))
		if s.loc != time.UTC {
			zone = " (" + s.loc.String() + ")" // of the calendars alone: the interval is elapsed time
		}
	case *zoned:
		text, elapsed := r.words()
		parts = append(parts, text)
		if s.loc != time.UTC {
			parts = append(parts, s.loc.String())
			if clock := r.clockWords(elapsed); clock != "" {
				parts = append(parts, clock)
			}
		}
	}
	if at := s.spec.StartAt; !at.IsZero() {
		parts = append(parts, "from "+moment(at, s.loc))
	}
	if at := s.spec.EndAt; !at.IsZero() {
		parts = append(parts, "before "+moment(at, s.loc))
	}
	if s.except != nil {
		parts = append(parts, "except "+s.except.words()+zone)
	}
	if s.jitter > 0 {
		parts = append(parts, "each up to "+interval(int64(s.jitter/time.Second), s.jitter)+" later")
	}
	return strings.Join(parts, ", ")
}

// words describes the readings of the pattern. elapsed reports whether the words mean elapsed time, as "every hour"
// does, so that clock changes neither remove nor merge occurrences.
func (z *zoned) words() (text string, elapsed bool) {
	switch p := z.pattern.(type) {
	case *cron:
		return p.words(z.elapsed(), true)
	case *rrule:
		return p.words(), false
	case reading:
		return "once at " + readingWords(wall(p)), false
	}
	return "", false
}

// elapsed reports whether the pattern fires at each real instant whose reading matches.
func (z *zoned) elapsed() bool { return z.gap == GapSkip && z.fold == FoldBoth }

// clockWords says what clock changes do, if it is not what the rest of the words implies.
func (z *zoned) clockWords(elapsed bool) string {
	implied := DST{GapShift, FoldFirst}
	if elapsed {
		implied = DST{GapSkip, FoldBoth}
	}
	if (DST{z.gap, z.fold}) == implied {
		return ""
	}
	return fmt.Sprintf("at clock changes: gap %s and fold %s", z.gap, z.fold)
}

func (e *every) words(anchor string) string {
	text := "every " + interval(e.d, 0)
	if e.d == 1 || e.d == 60 || e.d == 3600 {
		text = "every " + strings.TrimPrefix(interval(e.d, 0), "1 ")
	}
	if e.anchor == 0 { // the phase of the default anchor
		return text
	}
	at, err := time.Parse(time.RFC3339, anchor)
	if err != nil {
		at = time.Unix(e.anchor, 0)
	}
	return text + " counted from " + moment(at, time.UTC)
}

// interval is a duration in words: "15 minutes", "90 minutes", "2 hours 30 minutes". An exact duration with a fraction
// of a second is written as Go does.
func interval(seconds int64, exact time.Duration) string {
	if exact%time.Second != 0 {
		return exact.String()
	}
	var parts []string
	for _, u := range []struct {
		name string
		size int64
	}{{"day", daySeconds}, {"hour", 3600}, {"minute", 60}, {"second", 1}} {
		if len(parts) == 0 && seconds < 2*u.size && (seconds != u.size || u.name == "day") {
			continue // 90 minutes; and 24 hours, because a day of the clock may be longer or shorter
		}
		if n := seconds / u.size; n > 0 {
			parts = append(parts, count(n, u.name))
			seconds %= u.size
		}
	}
	return strings.Join(parts, " ")
}

func count(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.FormatInt(n, 10) + " " + unit + "s"
}

// moment is an instant with its offset in a zone.
func moment(t time.Time, loc *time.Location) string {
	layout := "2006-01-02 15:04"
	if t.Second() != 0 || t.Nanosecond() != 0 {
		layout += ":05.999999999"
	}
	if loc == time.UTC {
		return t.UTC().Format(layout) + " UTC"
	}
	return t.In(loc).Format(layout + " -07:00")
}

// readingWords is a wall-clock reading without an offset.
func readingWords(w wall) string {
	t := time.Unix(int64(w), 0).UTC()
	if t.Second() != 0 {
		return t.Format("2006-01-02 15:04:05")
	}
	return t.Format("2006-01-02 15:04")
}

// maxExceptWords is how many entries of calendars the words list.
const maxExceptWords = 8

// words lists what calendars exclude.
func (e *exclusion) words() string {
	var parts []string
	if e.weekdays != 0 {
		parts = append(parts, weekdayWords(e.weekdays))
	}
	for month, days := range e.yearly {
		for ; days != 0; days &= days - 1 {
			parts = append(parts, fmt.Sprintf("%d %s", bits.TrailingZeros32(days), time.Month(month)))
		}
	}
	for _, d := range e.dates {
		from, to := time.Unix(int64(d.from), 0).UTC(), time.Unix(int64(d.to)-1, 0).UTC()
		text := from.Format(time.DateOnly)
		if last := to.Format(time.DateOnly); last != text {
			text += " to " + last
		}
		parts = append(parts, text)
	}
	windows := e.windows
	if n := len(windows); n > 1 && windows[0].from == 0 && windows[n-1].to == daySeconds {
		// One window that crosses midnight.
		windows = append([]span{{windows[n-1].from, windows[0].to}}, windows[1:n-1]...)
	}
	for _, w := range windows {
		parts = append(parts, fmt.Sprintf("%02d:%02d to %02d:%02d", w.from/3600, w.from/60%60, w.to/3600, w.to/60%60))
	}
	if more := len(parts) - maxExceptWords; more > 0 {
		parts = append(parts[:maxExceptWords], strconv.Itoa(more)+" more")
	}
	return listWords(parts)
}

// listWords joins items: "a, b and c".
func listWords(items []string) string {
	if n := len(items); n > 1 {
		return strings.Join(items[:n-1], ", ") + " and " + items[n-1]
	}
	return strings.Join(items, "")
}

// ordinals are the positions that have a word of their own.
var ordinals = []string{"", "first", "second", "third", "fourth", "fifth"}

// nth is a number as a position: 2nd, 21st.
func nth(n int64) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.FormatInt(n, 10) + suffix
}
