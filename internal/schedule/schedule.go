package schedule

import (
	"errors"
	"math"
	"time"
)

// Horizon is how far Next looks ahead. The rarest real dates are a 29 February
// on a given weekday: 40 years apart around 2100.
const Horizon = 50 * 366 * 24 * time.Hour

// maxExcluded bounds how many occurrences in a row calendars may exclude: over
// 13 years of daily ones, and about 2 ms of search.
const maxExcluded = 5_000

var (
	// ErrNoMore says that no occurrence follows: the schedule has ended, or its
	// next occurrence lies beyond Horizon.
	ErrNoMore = errors.New("schedule: no further occurrence")
	// ErrTooFar says that the search was given up. It is not the end of the
	// schedule; whoever gets it must report it, never treat it as "done".
	ErrTooFar = errors.New("schedule: calendars exclude too many occurrences in a row; the search was given up")
)

// Schedule is a compiled Spec. It is immutable and safe for concurrent use.
type Schedule struct {
	spec   Spec
	rule   rule
	loc    *time.Location
	start  time.Time // first admissible instant; zero: none
	end    time.Time // first inadmissible instant; zero: none
	reach  time.Duration
	except []exclusion
	jitter time.Duration
	key    string
	text   string
}

// rule finds occurrences, knowing nothing of start, end and calendars.
type rule interface {
	// next returns the first occurrence strictly later than after, not later than limit.
	next(after, limit time.Time) (time.Time, bool)
}

// New checks spec and compiles it. spread is the text whose hash resolves H in
// cron expressions (the job's id, say); it matters to nothing else.
func New(spec Spec, spread string) (*Schedule, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	loc, err := loadZone(spec.Timezone)
	if err != nil {
		return nil, err
	}
	s := &Schedule{spec: spec, loc: loc, start: spec.StartAt, end: spec.EndAt, reach: Horizon}
	if spec.At != "" {
		s.reach = math.MaxInt64 // a single time needs no search
	}
	canonical := spec
	if s.rule, err = compile(&canonical, loc, spread); err != nil {
		return nil, err
	}
	if first := firstPossible(s.rule); s.start.Before(first) {
		s.start = first // a search from long before would end before it begins
	}
	if s.except, err = compileCalendars(spec.Calendars); err != nil {
		return nil, err
	}
	if s.jitter, err = parseJitter(spec.Jitter); err != nil {
		return nil, err
	}
	s.key, s.text = canonical.key(s.rule), canonical.describe()
	return s, s.checkFires()
}

// compile builds the rule of the one kind that is set, and rewrites spec to its
// canonical form on the way: the same rule written differently has the same key.
func compile(spec *Spec, loc *time.Location, spread string) (rule, error) {
	switch {
	case spec.At != "":
		return compileAt(spec, loc)
	case spec.Every != "":
		return compileEvery(spec)
	case spec.Cron != "":
		return compileCron(spec, loc, spread)
	default:
		return compileRRule(spec, loc)
	}
}

// firstPossible is an instant before the first occurrence of a rule that has
// a beginning; zero for one that has none.
func firstPossible(r rule) time.Time {
	if z, ok := r.(*zoned); ok {
		if rr, ok := z.pattern.(*rrule); ok {
			return time.Unix(int64(rr.start)-maxOffsets, 0)
		}
	}
	return time.Time{}
}

// checkFires refuses a schedule without a single occurrence: nobody means one.
func (s *Schedule) checkFires() error {
	from := s.start
	if from.IsZero() {
		from = epoch
	}
	_, err := s.Next(from.Add(-time.Nanosecond))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrTooFar) || len(s.except) > 0 && s.ruleFires(from):
		return &Error{Field: "calendars", Problem: "they exclude every occurrence of the schedule", Fix: "exclude less"}
	case !s.end.IsZero():
		return &Error{Field: "end_at", Problem: "no occurrence falls between start_at and end_at", Fix: "widen the range or change the " + s.spec.kind()}
	default:
		return &Error{Field: s.spec.kind(), Problem: quote(s.spec.text()) + " never occurs", Fix: "check that its dates exist (February has no day 30)"}
	}
}

// ruleFires says whether there is an occurrence before the calendars are asked.
func (s *Schedule) ruleFires(from time.Time) bool {
	bare := *s
	bare.except = nil
	_, err := bare.Next(from.Add(-time.Nanosecond))
	return err == nil
}

// epoch is where searches without a start begin, and the default anchor of
// "every": aligned to full minutes, hours and days of UTC.
var epoch = time.Unix(0, 0).UTC()

// Next returns the first occurrence strictly later than after, in the
// schedule's zone. It allocates nothing.
func (s *Schedule) Next(after time.Time) (time.Time, error) {
	if after.Before(s.start) {
		after = s.start.Add(-time.Nanosecond)
	}
	limit := after.Add(s.reach)
	if !s.end.IsZero() && s.end.Before(limit) {
		limit = s.end.Add(-time.Nanosecond)
	}
	for range maxExcluded {
		t, ok := s.rule.next(after, limit)
		if !ok {
			return time.Time{}, ErrNoMore
		}
		until, out := s.excludedUntil(t)
		if !out {
			return t.In(s.loc), nil
		}
		after = until
	}
	return time.Time{}, ErrTooFar
}

// excludedUntil says whether a calendar excludes t, and an instant before which
// no occurrence can be admissible again (never earlier than t).
func (s *Schedule) excludedUntil(t time.Time) (time.Time, bool) {
	if len(s.except) == 0 {
		return t, false
	}
	_, off := t.In(s.loc).Zone()
	reading := toWall(t, off)
	until, out := reading, false
	for i := range s.except {
		if end, ok := s.except[i].until(reading); ok {
			out, until = true, max(until, end)
		}
	}
	if !out {
		return t, false
	}
	// The clock may be changed between t and the exclusion's end; the larger
	// offset gives the earlier instant, which is the safe one to search from.
	_, offThen := time.Unix(int64(until)-int64(off), 0).In(s.loc).Zone()
	back := time.Unix(int64(until)-int64(max(off, offThen))-1, 0)
	if back.Before(t) {
		back = t
	}
	return back, true
}

// Zone is the schedule's time zone; UTC when none was given.
func (s *Schedule) Zone() *time.Location { return s.loc }

// Spec returns what the schedule was made from.
func (s *Schedule) Spec() Spec { return s.spec }

// Key is the canonical text of everything that decides due times apart from
// start_at, end_at and jitter. Schedules with equal keys have equal occurrences,
// whatever way they were written.
func (s *Schedule) Key() string { return s.key }

// RunAt is when an occurrence may start: due plus the jitter that belongs to
// (key, due). It is the same on every node and at every call.
func (s *Schedule) RunAt(due time.Time, key string) time.Time {
	return due.Add(spreadOver(s.jitter, key, due))
}

// String is the schedule in one line, with H and macros resolved.
func (s *Schedule) String() string { return s.text }
