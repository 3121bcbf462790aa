package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// field describes the numbers one field of an expression may hold.
type field struct {
	name     string
	min, max int
	// alias is one more number that is accepted and means min: 7 for Sunday.
	alias int
	names []string
}

var (
	secondField = field{name: "second", min: 0, max: 59}
	minuteField = field{name: "minute", min: 0, max: 59}
	hourField   = field{name: "hour", min: 0, max: 23}
	domField    = field{name: "day-of-month", min: 1, max: 31}
	monthField  = field{name: "month", min: 1, max: 12, names: []string{
		"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
	}}
	dowField = field{name: "day-of-week", min: 0, max: 6, alias: 7, names: []string{
		"sun", "mon", "tue", "wed", "thu", "fri", "sat",
	}}
)

// set parses a comma list into a set indexed by value.
func (f field) set(text string) ([]bool, error) {
	set := make([]bool, f.max+1)
	for item := range strings.SplitSeq(text, ",") {
		values, err := f.item(item)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			set[v] = true
		}
	}
	return set, nil
}

// item parses one of: * n a-b */s a/s a-b/s, and lists the values it stands for.
func (f field) item(text string) ([]int, error) {
	span, stepText, hasStep := strings.Cut(text, "/")
	step := 1
	if hasStep {
		var err error
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return nil, fmt.Errorf("%s: step %q is not a positive number", f.name, stepText)
		}
	}
	lo, hi, isRange := strings.Cut(span, "-")
	switch {
	case span == "*":
		return f.walk(f.min, f.max, step), nil
	case isRange:
		a, err := f.number(lo)
		if err != nil {
			return nil, err
		}
		b, err := f.number(hi)
		if err != nil {
			return nil, err
		}
		return f.walk(a, b, step), nil
	}
	a, err := f.number(span)
	if err != nil {
		return nil, err
	}
	if hasStep {
		return f.walk(a, f.max, step), nil
	}
	return f.walk(a, a, 1), nil
}

// walk lists a, a+step, … up to b. With a > b it goes on over the end of the
// field: hours 22-2 are 22, 23, 0, 1, 2.
func (f field) walk(a, b, step int) []int {
	cycle := f.max - f.min + 1
	if a > b {
		b += cycle
	}
	var values []int
	for v := a; v <= b; v += step {
		values = append(values, f.min+(v-f.min)%cycle)
	}
	return values
}

// number reads a number of the field or one of its names.
func (f field) number(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.min + i, nil
	}
	for _, c := range text {
		// Atoi alone would accept a sign.
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%s: %q is not a value", f.name, text)
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a value", f.name, text)
	}
	if (n < f.min || n > f.max) && (f.alias == 0 || n != f.alias) {
		return 0, fmt.Errorf("%s: %d is not within %d-%d", f.name, n, f.min, f.max)
	}
	return n, nil
}
