package oracle

import (
	"fmt"
	"strings"
	"time"
)

// date is a day of the calendar, without a zone.
type date struct {
	year  int
	month time.Month
	day   int
}

const secondsPerDay = 24 * 60 * 60

// dateOf is the date on a wall clock that has counted n whole days since
// 1970-01-01.
func dateOf(n int64) date {
	y, m, d := time.Unix(n*secondsPerDay, 0).UTC().Date()
	return date{y, m, d}
}

func (d date) weekday() time.Weekday {
	return time.Date(d.year, d.month, d.day, 12, 0, 0, 0, time.UTC).Weekday()
}

// daysInMonth counts up until the calendar disagrees.
func (d date) daysInMonth() int {
	n := 28
	for time.Date(d.year, d.month, n+1, 12, 0, 0, 0, time.UTC).Month() == d.month {
		n++
	}
	return n
}

func (d date) withDay(day int) date { return date{d.year, d.month, day} }

func (d date) isWorkday() bool {
	return d.weekday() != time.Saturday && d.weekday() != time.Sunday
}

// dayTerm is one item of a day field: does it hold on this date?
type dayTerm func(date) bool

// dayTerms parses the comma list of a day field with the parser of one item.
func dayTerms(text string, parse func(string) (dayTerm, error)) ([]dayTerm, error) {
	var terms []dayTerm
	for item := range strings.SplitSeq(text, ",") {
		if item == "?" {
			item = "*"
		}
		term, err := parse(item)
		if err != nil {
			return nil, err
		}
		terms = append(terms, term)
	}
	return terms, nil
}

func anyTerm(terms []dayTerm, d date) bool {
	for _, term := range terms {
		if term(d) {
			return true
		}
	}
	return false
}

// domTerm parses L, L-n, LW, nW or a plain item of the day-of-month field.
func domTerm(item string) (dayTerm, error) {
	upper := strings.ToUpper(item)
	if upper == "L" {
		return func(d date) bool { return d.day == d.daysInMonth() }, nil
	}
	if upper == "LW" {
		return func(d date) bool { return d.isWorkday() && !laterWorkday(d) }, nil
	}
	if text, ok := strings.CutPrefix(upper, "L-"); ok {
		n, err := field{name: "days before the last", min: 0, max: 30}.number(text)
		if err != nil {
			return nil, err
		}
		return func(d date) bool { return d.day == d.daysInMonth()-n }, nil
	}
	if text, ok := strings.CutSuffix(upper, "W"); ok {
		n, err := domField.number(text)
		if err != nil {
			return nil, err
		}
		return func(d date) bool { return n <= d.daysInMonth() && d.day == nearestWorkday(d, n) }, nil
	}
	set, err := domField.set(item)
	if err != nil {
		return nil, err
	}
	return func(d date) bool { return set[d.day] }, nil
}

func laterWorkday(d date) bool {
	for day := d.day + 1; day <= d.daysInMonth(); day++ {
		if d.withDay(day).isWorkday() {
			return true
		}
	}
	return false
}

// nearestWorkday tries every day of the month of d and keeps the Mon–Fri that
// is closest to day n. Ties do not exist: weekends have two days.
func nearestWorkday(d date, n int) int {
	best, distance := 0, 99
	for day := 1; day <= d.daysInMonth(); day++ {
		away := max(day-n, n-day)
		if d.withDay(day).isWorkday() && away < distance {
			best, distance = day, away
		}
	}
	return best
}

// dowTerm parses d#n, d#L, dL or a plain item of the day-of-week field.
func dowTerm(item string) (dayTerm, error) {
	upper := strings.ToUpper(item)
	weekdayText, nth, hasNth := strings.Cut(upper, "#")
	if !hasNth && len(upper) > 1 && strings.HasSuffix(upper, "L") {
		weekdayText, nth, hasNth = strings.TrimSuffix(upper, "L"), "L", true
	}
	if !hasNth {
		set, err := dowField.set(item)
		if err != nil {
			return nil, err
		}
		return func(d date) bool { return set[d.weekday()] }, nil
	}
	n, err := dowField.number(weekdayText)
	if err != nil {
		return nil, err
	}
	weekday := time.Weekday(n % 7)
	if nth == "L" {
		return func(d date) bool { return d.weekday() == weekday && d.day+7 > d.daysInMonth() }, nil
	}
	if len(nth) != 1 || nth[0] < '1' || nth[0] > '5' {
		return nil, fmt.Errorf("day-of-week: %q is not one of 1-5 or L", nth)
	}
	want := int(nth[0] - '0')
	return func(d date) bool { return d.weekday() == weekday && occurrenceInMonth(d) == want }, nil
}

// occurrenceInMonth counts how many days of the month up to d share its weekday.
func occurrenceInMonth(d date) int {
	count := 0
	for day := 1; day <= d.day; day++ {
		if d.withDay(day).weekday() == d.weekday() {
			count++
		}
	}
	return count
}
