package schedule

import (
	"errors"
	"time"
)

// Horizon is how far Next looks ahead for cron and every. The rarest real date is 29 February on a given weekday: 40
// years apart around 2100. Rules of RFC 5545 can be rarer; for them Next looks to the year 2200.
const Horizon = 50 * 366 * 24 * time.Hour

// lastYear is the last year of times that users may write.
const lastYear = 2199

// maxExcluded bounds how many exclusions in a row Next passes. A range of excluded days is one exclusion, however long.
const maxExcluded = 1000

var (
	// ErrNoMore says that the schedule has ended: no occurrence follows.
	ErrNoMore = errors.New("schedule: no further occurrence")
	// ErrTooFar says that the search was given up. It is not the end of the schedule: callers must report it and never
	// treat it as ErrNoMore.
	ErrTooFar = errors.New("schedule: calendars exclude too many occurrences in a row; the search was given up")
)

// Schedule is a compiled Spec. It is immutable and safe for concurrent use.
type Schedule struct {
	spec   Spec
	rule   rule
	loc    *time.Location
	start  time.Time // first admissible instant; zero means no bound
	end    time.Time // first inadmissible instant; zero means no bound
	far    time.Time // searches end here; zero means at Horizon
	except *exclusion
	jitter time.Duration
	key    string
	text   string
}

// rule finds occurrences without regard to start, end and calendars.
type rule interface {
	// next returns the first occurrence strictly later than after, not later than limit.
	next(after, limit time.Time) (time.Time, bool)
}

// New checks spec and compiles it. The hash of spread, for example the job's id, resolves H in cron expressions.
func New(spec Spec, spread string) (*Schedule, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	loc, err := loadZone(spec.Timezone)
	if err != nil {
		return nil, err
	}
	s := &Schedule{spec: spec, loc: loc, start: spec.StartAt, end: spec.EndAt}
	canonical := spec
	if s.rule, s.text, err = compile(&canonical, loc, spread); err != nil {
		return nil, err
	}
	s.bound()
	if s.except, err = compileCalendars(spec.Calendars); err != nil {
		return nil, err
	}
	canonical.Calendars = s.except.calendars()
	if s.jitter, err = parseJitter(spec.Jitter); err != nil {
		return nil, err
	}
	s.key = canonical.key(s.rule)
	return s, s.checkFires()
}

// bound narrows start and end to the range of the rule itself, so that a search from long before reaches the range
// before its horizon.
func (s *Schedule) bound() {
	first := s.start
	switch r := s.rule.(type) {
	case instant:
		first = r.t
	case *zoned:
		switch p := r.pattern.(type) {
		case reading:
			first = time.Unix(int64(p)-maxOffsets, 0)
		case *rrule:
			first = time.Unix(int64(p.start)-maxOffsets, 0)
			s.far = time.Date(lastYear+1, 1, 1, 0, 0, 0, 0, time.UTC)
			if !p.untilInstant.IsZero() && (s.end.IsZero() || p.untilInstant.Before(s.end)) {
				s.end = p.untilInstant.Add(time.Second)
			}
		}
	}
	if s.start.Before(first) {
		s.start = first
	}
}

// horizon is where a search from an instant ends.
func (s *Schedule) horizon(from time.Time) time.Time {
	if !s.far.IsZero() {
		return s.far
	}
	return from.Add(Horizon)
}

// compile builds the rule of the kind that is set, and its text with H and macros resolved. It rewrites spec to its
// canonical form.
func compile(spec *Spec, loc *time.Location, spread string) (rule, string, error) {
	var r rule
	var err error
	switch {
	case spec.At != "":
		r, err = compileAt(spec, loc)
	case spec.Every != "":
		r, err = compileEvery(spec)
	case spec.Cron != "":
		text, err := cronText(spec.Cron, spread)
		if err != nil {
			return nil, "", err
		}
		r, err = compileCron(spec, loc, text)
		return r, "cron " + text, err
	default:
		r, err = compileRRule(spec, loc)
	}
	return r, spec.describe(), err
}

// checkFires rejects a schedule without any occurrence: it must be a mistake.
func (s *Schedule) checkFires() error {
	from := s.start
	if from.IsZero() {
		from = epoch
	}
	_, err := s.Next(from.Add(-time.Nanosecond))
	if err != nil && s.except != nil {
		// Dates may be excluded for longer than a search looks ahead.
		if last := s.except.lastDate(); last.After(from) {
			_, err = s.Next(last.Add(-maxOffsets * time.Second))
		}
	}
	switch {
	case err == nil:
		return nil
	case s.except != nil && s.ruleFires(from):
		return &Error{Field: "calendars", Problem: "they exclude every occurrence of the schedule", Fix: "exclude less"}
	case !s.spec.EndAt.IsZero():
		return &Error{
			Field: "end_at", Problem: "no occurrence falls before it",
			Fix: "move end_at or start_at, or change the " + s.spec.kind(),
		}
	case s.spec.At != "":
		return &Error{
			Field: "at",
			Problem: quote(s.spec.At) + " does not exist in " + s.loc.String() +
				", where the clock is put forward then",
			Fix: "choose another time, or dst.gap shift",
		}
	default:
		return &Error{
			Field: s.spec.kind(), Problem: quote(s.spec.text()) + " never occurs",
			Fix: "check that such a date exists (February has no day 30) and lies before the end",
		}
	}
}

// ruleFires reports whether there is an occurrence without regard to calendars.
func (s *Schedule) ruleFires(from time.Time) bool {
	bare := *s
	bare.except = nil
	_, err := bare.Next(from.Add(-time.Nanosecond))
	return err == nil
}

// epoch is where searches without a start begin, and the default anchor of "every": aligned to full minutes, hours and
// days of UTC.
var epoch = time.Unix(0, 0).UTC()

// Next returns the first occurrence strictly later than after, in the schedule's zone. It does not allocate.
func (s *Schedule) Next(after time.Time) (time.Time, error) {
	if after.Before(s.start) {
		after = s.start.Add(-time.Nanosecond)
	}
	limit := s.horizon(after)
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

// excludedUntil reports whether a calendar excludes t, and the last instant before which no occurrence can be
// admissible again (never earlier than t).
func (s *Schedule) excludedUntil(t time.Time) (time.Time, bool) {
	if s.except == nil {
		return t, false
	}
	sec := t.Unix()
	off := offsetAt(s.loc, sec)
	until, out := s.except.until(wall(sec + off))
	if !out {
		return t, false
	}
	back := int64(until) - off
	// Stop at a change of the clock: it may go back to before the exclusion.
	if at := stretchAt(s.loc, sec); at.end < back {
		back = at.end
	}
	return time.Unix(back, -1), true
}

// Zone is the schedule's time zone; UTC when none was given.
func (s *Schedule) Zone() *time.Location { return s.loc }

// Spec returns the spec of the schedule.
func (s *Schedule) Spec() Spec { return s.spec }

// Key is the canonical text of everything that decides due times, except start_at, end_at and jitter. Schedules with
// equal keys have equal occurrences. It is the JSON of a Spec with H resolved, up to about 30 kB.
func (s *Schedule) Key() string { return s.key }

// RunAt is when an occurrence may start: due plus a jitter derived from key and due. It is the same on every node and
// in every call.
func (s *Schedule) RunAt(due time.Time, key string) time.Time {
	return due.Add(spreadOver(s.jitter, key, due))
}

// String is the schedule in one line, with H and macros resolved.
func (s *Schedule) String() string { return s.text }
