package schedule

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	minEvery = time.Second
	maxEvery = 10 * 366 * 24 * time.Hour
)

// every occurs at anchor + n·d for every whole n, in elapsed time.
type every struct {
	anchor int64 // Unix seconds
	d      int64 // seconds
}

func (e *every) next(after, limit time.Time) (time.Time, bool) {
	s := after.Unix()
	n := (s - e.anchor) / e.d
	if (s-e.anchor)%e.d < 0 {
		n-- // round down, also before the anchor
	}
	t := time.Unix(e.anchor+(n+1)*e.d, 0)
	return t, !t.After(limit)
}

func compileEvery(spec *Spec) (rule, error) {
	d, err := ParseDuration(spec.Every)
	switch {
	case err != nil:
		return nil, &Error{
			Field: "every", Problem: quote(spec.Every) + " is not a duration",
			Fix: "write for example 90s, 15m, 1h30m or 7d",
		}
	case d < minEvery || d > maxEvery:
		return nil, &Error{Field: "every", Problem: quote(spec.Every) + " is out of range", Fix: "use 1s to 3660d"}
	case d%time.Second != 0:
		return nil, &Error{
			Field: "every", Problem: quote(spec.Every) + " has a fraction of a second", Fix: "use whole seconds",
		}
	}
	anchor := epoch
	if spec.Anchor != "" {
		if anchor, err = time.Parse(time.RFC3339, spec.Anchor); err != nil || anchor.Nanosecond() != 0 {
			return nil, &Error{
				Field: "anchor", Problem: quote(spec.Anchor) + " is not a time in whole seconds with an offset",
				Fix: "write for example 2026-01-01T00:00:00Z",
			}
		}
	}
	e := &every{anchor: anchor.Unix(), d: int64(d / time.Second)}
	// Only the phase of the anchor matters, so that equal series share a key.
	phase := (e.anchor%e.d + e.d) % e.d
	e.anchor = phase
	spec.Every, spec.Anchor = fmt.Sprintf("%ds", e.d), ""
	if phase != 0 {
		spec.Anchor = time.Unix(phase, 0).UTC().Format(time.RFC3339)
	}
	return e, nil
}

// ParseDuration is time.ParseDuration with days (24 h) and weeks.
func ParseDuration(s string) (time.Duration, error) {
	var total time.Duration
	rest := s
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		digits, after, ok := strings.Cut(rest, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n > 4000 { // more would overflow
			return 0, fmt.Errorf("duration %q: %q is not a number of %s", s, digits, u.name)
		}
		if n > uint64((math.MaxInt64-total)/u.unit) {
			return 0, fmt.Errorf("duration %q: it is longer than 290 years", s)
		}
		total += time.Duration(n) * u.unit
		rest = after
	}
	if rest == "" && s != "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	switch {
	case err != nil:
		return 0, err
	case d < 0 && total > 0:
		return 0, fmt.Errorf("duration %q: a sign in the middle", s)
	case d > math.MaxInt64-total:
		return 0, fmt.Errorf("duration %q: it is longer than 290 years", s)
	}
	return total + d, nil
}

// Count counts the occurrences in [from, to) without visiting them. ok is false unless the schedule is an interval
// without calendars.
func (s *Schedule) Count(from, to time.Time) (n int64, ok bool) {
	e, ok := s.rule.(*every)
	if !ok || len(s.spec.Calendars) > 0 {
		return 0, false
	}
	if from.Before(s.start) {
		from = s.start
	}
	if !s.end.IsZero() && s.end.Before(to) {
		to = s.end
	}
	if !from.Before(to) {
		return 0, true
	}
	return e.before(to) - e.before(from), true
}

// before is the number of the first occurrence that is not before t.
func (e *every) before(t time.Time) int64 {
	seconds := t.Unix() - e.anchor
	if t.Nanosecond() > 0 {
		seconds++
	}
	n := seconds / e.d
	if seconds%e.d > 0 {
		n++
	}
	return n
}
