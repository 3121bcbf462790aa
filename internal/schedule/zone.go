package schedule

import (
	"math"
	"strings"
	"sync"
	"time"
)

// wall is a wall-clock reading: the seconds since 1970 at which a clock set to UTC shows it.
type wall int64

const (
	daySeconds = 24 * 60 * 60
	// maxGap: a larger jump is a correction of the calendar, not DST.
	maxGap = 3 * 60 * 60
	// maxOffsets is more than the distance between any two UTC offsets.
	maxOffsets = 48 * 60 * 60
	// noBound is the end of a stretch that has none.
	noBound = math.MaxInt64 / 4
)

// pattern is a set of wall-clock readings.
type pattern interface {
	// from returns the first reading in [w, limit].
	from(w, limit wall) (wall, bool)
}

// zoned turns a pattern of readings into instants of a zone.
type zoned struct {
	pattern  pattern
	loc      *time.Location
	gap      Gap
	fold     Fold
	allHours bool // every hour matches, so a skipped gap removes nothing
}

func newZoned(p pattern, loc *time.Location, dst DST) *zoned {
	z := &zoned{pattern: p, loc: loc, gap: dst.Gap, fold: dst.Fold}
	if z.gap == "" {
		z.gap = GapShift
	}
	if z.fold == "" {
		z.fold = FoldFirst
	}
	return z
}

// stretch is a span of instants [start, end) with one UTC offset.
type stretch struct {
	start, end int64 // Unix seconds; ±noBound if there is none
	off        int64
}

func stretchAt(loc *time.Location, instant int64) stretch {
	t := time.Unix(instant, 0).In(loc)
	_, off := t.Zone()
	start, end := t.ZoneBounds()
	s := stretch{start: -noBound, end: noBound, off: int64(off)}
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	// After the end of a zone's table, ZoneBounds follows the zone's permanent rule and is wrong in two ways. First, it
	// ends each year after 365 days, so on the last day of a leap year the end is not later than t.
	if s.end <= instant {
		s.end = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	// Second, right after the last transition of the table it returns where a stretch would have begun by the rule.
	if s.start != -noBound && offsetAt(loc, s.start) != s.off {
		s.start = changeBefore(loc, s.start, instant)
	}
	return s
}

// changeBefore finds when the offset changed to what it is at instant is, after instant other with another offset.
func changeBefore(loc *time.Location, other, is int64) int64 {
	off := offsetAt(loc, is)
	for other+1 < is {
		if mid := (other + is) / 2; offsetAt(loc, mid) == off {
			is = mid
		} else {
			other = mid
		}
	}
	return is
}

func offsetAt(loc *time.Location, instant int64) int64 {
	_, off := time.Unix(instant, 0).In(loc).Zone()
	return int64(off)
}

func (z *zoned) next(after, limit time.Time) (time.Time, bool) {
	// Occurrences are whole seconds: the first one later than after is at the next second or later.
	t, ok := z.fromInstant(after.Unix()+1, limit.Unix())
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(t, 0), true
}

// fromInstant returns the first occurrence in [from, limit], stretch by stretch.
func (z *zoned) fromInstant(from, limit int64) (int64, bool) {
	for from <= limit {
		s := stretchAt(z.loc, from)
		if z.firesAtGapEnd(s, from) {
			return from, true
		}
		lo, hi := z.readings(s, from)
		w, ok := z.pattern.from(lo, wall(limit)+maxOffsets)
		if ok && w < hi {
			t := int64(w) - s.off
			return t, t <= limit
		}
		if s.end == noBound {
			return 0, false
		}
		next := offsetAt(z.loc, s.end)
		if next >= s.off { // after a fold, readings before w may repeat
			if !ok {
				return 0, false
			}
			// Nothing matches for a while: skip the stretches between.
			from = max(from, int64(w)-maxOffsets)
		}
		from = max(from, s.end)
	}
	return 0, false
}

// readings returns the readings [lo, hi) of a stretch that count, from an instant on.
func (z *zoned) readings(s stretch, from int64) (lo, hi wall) {
	lo, hi = wall(from+s.off), wall(s.end+s.off)
	if z.fold == FoldFirst && from-s.start < maxOffsets {
		// Readings that the stretch before has shown do not count again.
		lo = max(lo, wall(s.start+offsetAt(z.loc, s.start-1)))
	}
	if z.fold == FoldSecond && s.end != noBound {
		// Readings that the stretch after repeats count there.
		hi = min(hi, wall(s.end+offsetAt(z.loc, s.end)))
	}
	return lo, hi
}

// firesAtGapEnd reports whether a gap ends at instant and a reading in it shifts to here.
func (z *zoned) firesAtGapEnd(s stretch, instant int64) bool {
	if z.gap != GapShift || instant != s.start {
		return false
	}
	_, ok := z.inGap(s)
	before := offsetAt(z.loc, s.start-1)
	return ok && s.off-before <= maxGap
}

// inGap returns the first reading of the pattern that the gap before s removes.
func (z *zoned) inGap(s stretch) (wall, bool) {
	if s.start == -noBound {
		return 0, false
	}
	before := offsetAt(z.loc, s.start-1)
	if before >= s.off {
		return 0, false
	}
	return z.pattern.from(wall(s.start+before), wall(s.start+s.off-1))
}

// zones caches what time.LoadLocation reads from disk. It has only names that exist, so the zone database bounds it.
var zones sync.Map

func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	if loc, err := time.LoadLocation(name); err == nil && portable(name) {
		zones.Store(name, loc)
		return loc, nil
	}
	return nil, &Error{
		Field: "timezone", Problem: "unknown time zone " + quote(name),
		Fix: "use an IANA name such as Europe/Berlin, America/New_York or UTC",
	}
}

// portable rejects names that mean different zones on different machines, and names that only some zone databases have:
// equal schedules must have equal occurrences on every node.
func portable(name string) bool {
	switch strings.ToLower(name) {
	case "local", "localtime", "posixrules":
		return false
	}
	return !strings.HasPrefix(name, "posix/") && !strings.HasPrefix(name, "right/")
}
